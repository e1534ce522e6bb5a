"""The saga without any server: whatever dies, whoever answers late, twice or never, no stock is
lost or sold twice, and no money is kept for nothing."""

import time
from collections import defaultdict
from typing import Any

import orjson
import pytest
import shop

from shared.model import Event
from tests.shop.oracle import expected_order, what_is_wrong
from tests.shop.world import FLOW, World

SKUS = ("tea", "jam", "nut")
MANNERS = ("pays", "pays late", "pays twice", "fails", "never", "pays and fails", "two payments")


class Payments:
    """Somebody else's code, played: it is asked at least once, and answers as it likes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.taken: dict[str, list[str]] = defaultdict(list)
        self.refunded: set[str] = set()
        self.manner: dict[str, str] = {}
        self.later: list[tuple[int, str, str, dict[str, Any]]] = []

    def step(self) -> None:
        self._take("event.payment_asked.v1", self._pay)
        self._take("event.refund_asked.v1", self._refund)
        self._take("event.shipping_asked.v1", self._ship)
        due = [one for one in self.later if one[0] <= self.world.now_ms]
        for one in due:
            self.later.remove(one)
            _, endpoint, order, said = one
            payment = said.get("payment") if endpoint == "payment" else None
            if payment and payment not in self.taken[order]:
                self.taken[order].append(payment)
            self.world.post(endpoint, order, said)

    def _take(self, topic: str, carry_out: Any) -> None:
        for place, record in self.world.take("outside", topic, 3):
            asked = orjson.loads(record.value or b"")
            carry_out(asked["entity_id"], asked["id"], asked["data"])
            if self.world.chance.random() < 0.9:  # or it dies, and is asked again
                self.world.next["outside", topic] = place.offset + 1

    def _pay(self, order: str, asked: str, _data: Any) -> None:
        chance, now_ms = self.world.chance, self.world.now_ms
        manner = self.manner.setdefault(order, chance.choice(MANNERS))
        soon, late = now_ms + chance.randint(0, 20_000), now_ms + chance.randint(25_000, 60_000)
        pays: dict[str, Any] = {"asked": asked, "payment": f"pay-{asked}", "why": None}
        fails: dict[str, Any] = {"asked": asked, "payment": None, "why": "no money"}
        answers = {
            "pays": [(soon, pays)],
            "pays late": [(late, pays)],
            "pays twice": [(soon, pays), (late, pays)],
            "fails": [(soon, fails)],
            "never": [],
            "pays and fails": [(soon, pays), (soon, fails)],
            "two payments": [(soon, pays), (late, {**pays, "payment": f"pay-2-{asked}"})],
        }[manner]
        chance.shuffle(answers)
        self.later += [(at_ms, "payment", order, said) for at_ms, said in answers]

    def _refund(self, order: str, asked: str, data: Any) -> None:
        self.refunded.add(data["payment"])
        said = {"asked": asked, "payment": data["payment"]}
        self.later.append((self.world.now_ms + 500, "refund", order, said))

    def _ship(self, order: str, asked: str, _data: Any) -> None:
        self.later.append((self.world.now_ms + 500, "shipment", order, {"asked": asked}))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> World:
    made = World(getattr(request, "param", 0))
    monkeypatch.setattr(time, "time_ns", lambda: made.now_ms * 1_000_000)
    return made


def _settle(world: World, payments: Payments | None = None) -> None:
    """Nobody dies any more, and time passes until nothing is left to do."""
    world.deaths = 0.0
    for _ in range(4_000):
        for step in (world.step_enrich, world.step_retry, world.step_fold):
            step()
        if payments:
            payments.step()
        world.now_ms += 100
        if world.rests and not (payments and payments.later):
            return
    raise AssertionError("it never comes to rest")


@pytest.mark.parametrize("world", range(60), indirect=True)
def test_no_stock_is_lost_and_no_money_is_kept_for_nothing_whoever_dies(world: World) -> None:
    payments, chance = Payments(world), world.chance
    world.deaths = 0.3
    orders = [f"o-{n}" for n in range(25)]
    delivered: dict[str, int] = defaultdict(int)
    for order in orders:
        for _ in range(chance.randint(1, 30)):
            steps = [world.step_enrich, world.step_retry, world.step_fold, payments.step]
            chance.choice(steps)()
            world.now_ms += chance.randint(0, 300)
        if chance.random() < 0.1:
            world.lose_checkpoint()
        sku = chance.choice(SKUS)
        placing = {"customer": "c", "sku": sku, "quantity": chance.randint(1, 4)}
        for _ in range(chance.choice([1, 1, 1, 2])):  # some are sent twice
            world.post("order", order, placing, key=f"placing-{order}")
        if chance.random() < 0.4 or not delivered[sku]:
            quantity = chance.randint(1, 8)
            world.post("delivery", sku, {"quantity": quantity, "price": 10})
            delivered[sku] += quantity
    _settle(world, payments)

    assert world.parked == []
    for order in orders:
        log = world.log_of("event.orders.v1", order)
        assert world.state("order", order) == expected_order(order, log)
    states = [world.state("order", order) for order in orders]
    stocks = {sku: world.state("stock", sku) for sku in SKUS if delivered[sku]}
    assert what_is_wrong(delivered, stocks, states, payments.taken, payments.refunded) == []
    # each deadline has one end
    asked = {record.key for record in world.topics["event.payment_asked.v1"]}
    deadlines = world.topics["ingest.take_payment_deadline.v1"]
    assert len({record.key for record in deadlines}) == len(asked)
    ids = [orjson.loads(r.value or b"")["id"] for r in world.topics["event.orders.v1"]]
    assert len(ids) > len(set(ids)), "nobody died, so this shows nothing"


def _to_payment(world: World) -> None:
    world.post("delivery", "tea", {"quantity": 5, "price": 10})
    for _ in range(200):
        world.step_enrich()
        world.step_fold()
    world.post("order", "o-1", {"customer": "c", "sku": "tea", "quantity": 2})
    for _ in range(200):
        world.step_enrich()
        world.step_fold()
    assert world.state("order", "o-1")["status"] == "paying"
    assert world.state("stock", "tea")["reserved"] == {"o-1": 2}


PAYS = {"asked": "a", "payment": "pay-1", "why": None}


def test_without_an_answer_the_order_is_cancelled_and_its_goods_are_free_again(
    world: World,
) -> None:
    _to_payment(world)
    (deadline,) = world.topics["ingest.take_payment_deadline.v1"]
    assert deadline.key != b"o-1", "it would hold up the answer"
    _settle(world)
    assert (world.now_ms - world.times["ingest.take_payment_deadline.v1"][0]) >= 30_000
    order = world.state("order", "o-1")
    assert (order["status"], order["why"]) == ("cancelled", "no payment in time")
    assert world.state("stock", "tea") == {
        "sku": "tea", "price": 10, "free": 5, "reserved": {}, "sold": 0,
    }  # fmt: skip
    assert world.dropped == 0


def test_a_deadline_that_was_answered_is_dropped(world: World) -> None:
    _to_payment(world)
    world.post("payment", "o-1", PAYS)
    _settle(world)
    assert world.state("order", "o-1")["status"] == "shipping"
    assert world.dropped == 1
    kinds = [kind for kind, _ in world.log_of("event.orders.v1", "o-1")]
    assert "take_payment_timed_out" not in kinds


@pytest.mark.parametrize("answer_is_first", [True, False])
def test_of_an_answer_and_a_time_out_that_race_the_first_in_the_log_wins(
    world: World, answer_is_first: bool
) -> None:
    """The time-out has looked at the state before the answer was folded, so both are events."""
    _to_payment(world)
    world.now_ms += 31_000
    race = [lambda: world.post("payment", "o-1", PAYS), world.step_retry]
    for go_on in race if answer_is_first else race[::-1]:
        go_on()
        for _ in range(60):  # enrich alone: nothing is folded meanwhile
            world.step_enrich()
    kinds = [kind for kind, _ in world.log_of("event.orders.v1", "o-1")]
    first = ["paid", "take_payment_timed_out"]
    assert kinds == ["placed", "reserved", *(first if answer_is_first else first[::-1])]
    _settle(world)
    order, stock = world.state("order", "o-1"), world.state("stock", "tea")
    if answer_is_first:
        assert (order["status"], order["payments"]) == ("shipping", {"pay-1": "kept"})
        assert (stock["free"], stock["reserved"]) == (3, {"o-1": 2})
    else:
        assert (order["status"], order["payments"]) == ("cancelled", {"pay-1": "to be refunded"})
        assert (stock["free"], stock["reserved"]) == (5, {})
        assert len(world.topics["event.refund_asked.v1"]) == 1


def test_a_time_out_waits_for_the_state_that_knows_of_its_question(world: World) -> None:
    """fold died between the deadline and the state: looked at too early, nobody would wait."""
    _to_payment(world)
    snapshot = world.states.pop(("order", "o-1"))
    world.now_ms += 60_000
    for _ in range(20):
        world.step_enrich()
        world.step_retry()
        world.now_ms += 1_000
    assert world.waiting and not world.dropped
    world.states["order", "o-1"] = snapshot
    _settle(world)
    assert world.state("order", "o-1")["status"] == "cancelled"


def test_an_order_waits_for_a_price_and_says_which_stock_it_saw(world: World) -> None:
    world.post("order", "o-1", {"customer": "c", "sku": "tea", "quantity": 2})
    world.post("delivery", "tea", {"quantity": 5, "price": 10})
    _settle(world)
    placed = orjson.loads(world.topics["event.orders.v1"][0].value or b"")
    assert (placed["data"]["amount"], placed["saw"]) == (20, {"stock/tea": 1})


def test_what_the_entities_say_to_each_other_comes_to_an_end() -> None:
    """`emits_on` says it, and a fold that keeps not to it is found out."""
    order = FLOW.entities[0]
    assert order.may_emit("placed") == ("reservation_asked",)
    before, event = shop.new_order("o-1"), Event("e", "paid", "o-1", 0, 0, False, {"payment": "p"})
    after = shop.fold_order(before, event)
    (draft,) = shop.asks_of_order(before, after, event)
    assert (draft.type, draft.data) == ("refund_asked", {"payment": "p"})
