"""What an enrichment cannot do yet: when it is tried again, how often, and what stays in order."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from clients.kafka.records import Outgoing
from shared.events import envelope
from shared.events.envelope import Position
from shared.events.redelivery import FirstArrival, headers_of
from shared.model import MissingMasterData, NotYet
from stream_jobs.enrich.enrich_payload import enricher
from stream_jobs.waiting.codec import Order, gate_told
from tests.stream_jobs.retry import test_job
from tests.stream_jobs.waiting_flow import Service

ORDERED, PARKED, GATE = "event.ordered.v1", "dlq.enrich.v1", "gate.enrich.v1"


class World(test_job.World):
    topic = "ingest.order.v1"


_FLOWS = "tests.stream_jobs.waiting_flow"


@pytest.fixture(autouse=True)
def service() -> Iterator[None]:
    Service.answer, Service.asked = NotYet("the service says no"), 0
    yield
    Service.answer = None


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(monkeypatch, flow=f"{_FLOWS}:FLOW")
    world.relay_is_away = True  # there is no master data of which it could say anything
    return world


@pytest.fixture
def looks_up(monkeypatch: pytest.MonkeyPatch) -> World:
    """What waits may wait for a row, too."""
    world = World(monkeypatch, flow=f"{_FLOWS}:LOOKS_UP")
    world.master.rows["device", "device-7"] = {}
    return world


def ids(made: list[Outgoing]) -> list[str]:
    return test_job.ids(made, ORDERED)


def parked(made: list[Outgoing]) -> list[str]:
    letters = [one for one in made if one.topic == PARKED]
    return [envelope.text(one.headers, envelope.REASON) or "" for one in letters]


def tries(world: World, seconds: range) -> list[int]:
    """At which of them the service was asked."""
    asked = []
    for second in seconds:
        before = Service.asked
        world.batch()
        asked += [second] * (Service.asked - before)
    return asked


def test_it_is_tried_again_when_its_policy_says_and_parked_in_the_end(world: World) -> None:
    world.batch(world.lane(5))
    assert Service.asked == 1  # by enrich
    assert tries(world, range(1, 100)) == [10, 40]
    (made, more) = world.batch(), world.batch()
    assert parked(made) + parked(more) == []  # it was, when it was given up
    assert world.is_empty()


def test_what_is_parked_says_why(world: World) -> None:
    world.batch(world.lane(5))
    made = [one for _ in range(60) for one in world.batch()]
    (letter,) = [one for one in made if one.topic == PARKED]
    assert envelope.text(letter.headers, envelope.REASON) == "not_yet"
    assert envelope.text(letter.headers, envelope.DETAIL) == "the service says no"
    assert envelope.text(letter.headers, envelope.TRIES) == "3"
    assert envelope.find(letter.headers, envelope.AFTER) is None


def test_an_enrichment_says_itself_when(world: World) -> None:
    Service.answer = NotYet("at noon", after_s=25)
    world.batch(world.lane(5))
    assert tries(world, range(1, 60)) == [25, 50]


def test_it_is_tried_no_earlier_than_it_says_however_long_a_batch_takes(world: World) -> None:
    Service.answer = NotYet("at noon", after_s=25)
    world.batch(world.lane(5))
    world.batch_lasts_ms = 2_500
    assert tries(world, range(1, 60)) == [25, 53]


def test_later_ones_of_the_entity_wait_behind_it_and_all_go_in_order(world: World) -> None:
    world.batch(world.lane(5, 6, 7))
    Service.answer = None
    made = [one for _ in range(12) for one in world.batch()]
    assert ids(made) == ["event-5", "event-6", "event-7"]
    assert (made[-1].topic, made[-1].value) == (GATE, None)
    assert world.is_empty()


def test_where_what_it_waits_for_is_away_neither_tries_nor_time_count(world: World) -> None:
    Service.answer = NotYet("the service is away", after_s=60, away=True)
    world.batch(world.lane(5))
    assert len(tries(world, range(1, 3_000))) > 40
    Service.answer = NotYet("it is back, and says no", after_s=60)
    made = [one for _ in range(100) for one in world.batch()]
    assert parked(made) == []
    Service.answer = None
    assert ids([one for _ in range(60) for one in world.batch()]) == ["event-5"]


def test_time_counts_again_when_it_is_back(world: World) -> None:
    Service.answer = NotYet("away", after_s=200, away=True)
    world.batch(world.lane(5))
    tries(world, range(700))
    Service.answer = NotYet("it is back, and says no", after_s=250)
    made = [one for _ in range(400) for one in world.batch()]
    assert parked(made) == []  # 800 s old, of which 600 did not count
    made = [one for _ in range(400) for one in world.batch()]
    assert parked(made) == ["not_yet"]


def test_the_gate_tells_an_operator_when_it_is_tried_next(world: World) -> None:
    (gate,) = world.batch(world.lane(5))
    told = gate_told(gate.value)
    assert told is not None
    assert (told.reason, told.detail, told.tries) == ("not_yet", "the service says no", 1)
    assert told.due_ms == world.now_ms + 10_000


def test_an_operator_has_it_tried_at_once(world: World) -> None:
    world.batch(world.lane(5, 6))
    Service.answer = None
    assert ids(world.batch(orders=(Order("try", "device-8"),))) == []
    assert ids(world.batch(orders=(Order("try", "device-7"),))) == ["event-5", "event-6"]


def test_an_operator_gives_up_all_that_wait_now_and_what_comes_later_is_tried(
    world: World,
) -> None:
    world.batch(world.lane(5, 6))
    made = world.batch(orders=(Order("give_up", "device-7"),))
    made += [one for _ in range(3) for one in world.batch()]
    assert parked(made) == ["given_up", "given_up"]
    detail = next(envelope.text(m.headers, envelope.DETAIL) for m in made if m.topic == PARKED)
    assert detail == "by hand, while it waited: the service says no"
    Service.answer = None
    assert world.is_empty()


def test_a_batch_that_runs_again_decides_as_before(world: World) -> None:
    world.batch(world.lane(5))
    world.batch(after_s=9)
    kept = {name: type(state)(state) for name, state in world.handle.states.items()}
    look_ms, now_ms = world.look_ms, world.now_ms
    first = world.batch()
    world.handle.states, world.look_ms, world.now_ms = kept, look_ms, now_ms
    assert world.batch() == first


def test_where_no_retry_is_declared_it_is_parked_with_what_to_do(world: World) -> None:
    value = b'{"value": 1}'
    place = envelope.Position("ingest.note.v1", 0, 3)
    payload = test_job.Payload(place, b"device-7", value, test_job.headers(3, value), 1)
    (made,) = world.enrich(payload)
    assert made.topic == PARKED
    assert parked([made]) == ["undeclared_wait"]
    detail = envelope.text(made.headers, envelope.DETAIL)
    assert detail == "note declares no `retry`, so nothing would try it again: the service says no"


@pytest.mark.parametrize("after_s", [-1, float("nan"), 1e9])
def test_a_pause_that_cannot_be_is_refused_where_it_is_raised(after_s: float) -> None:
    with pytest.raises(ValueError, match="after_s is"):
        NotYet("later", after_s=after_s)


def test_a_pause_counts_from_when_enrich_found_it_however_late_it_is_read(world: World) -> None:
    Service.answer = NotYet("at noon", after_s=25)
    world.batch(world.lane(5), sent_ago_s=20)
    assert tries(world, range(1, 20)) == [5]


def test_a_lost_checkpoint_begins_no_pause_anew(world: World) -> None:
    world.runs(f"{_FLOWS}:PATIENT")
    Service.answer = NotYet("tomorrow", after_s=86_400)
    lane = world.lane(5)
    world.batch(lane)
    world.handle = test_job.Handle()
    world.batch(lane, after_s=80_000, sent_ago_s=80_000)
    Service.answer = None
    assert ids(world.batch(after_s=6_300)) == []
    assert ids(world.batch(after_s=101)) == ["event-5"]


def test_it_is_tried_in_time_while_master_data_is_stale_and_grows_no_older(
    looks_up: World,
) -> None:
    Service.answer = NotYet("in an hour", after_s=3600)
    (gate,) = looks_up.batch(looks_up.lane(5))
    told = gate_told(gate.value)
    assert told is not None
    assert told.due_ms == looks_up.now_ms + 3_600_000
    looks_up.relay_is_away = True
    looks_up.batch(after_s=3599)
    assert looks_up.look_ms == told.due_ms
    Service.answer = NotYet("in a minute", after_s=60)
    (gate,) = looks_up.batch()
    again = gate_told(gate.value)
    assert again is not None  # not parked: it is 300 s old by the lane's clock, of 600
    assert (again.due_ms, again.tries) == (looks_up.now_ms + 60_000, 2)


def test_it_may_wait_for_a_row_and_for_a_time_in_turn(looks_up: World) -> None:
    del looks_up.master.rows["device", "device-7"]
    looks_up.batch(looks_up.lane(5))
    assert looks_up.batch(after_s=300) == []
    looks_up.master.rows["device", "device-7"] = {}
    (gate,) = looks_up.batch(came=("device-7",))
    assert gate_told(gate.value)[3:5] == ("not_yet", "the service says no")  # type: ignore[index]
    Service.answer = None
    assert ids(looks_up.batch(after_s=60)) == ["event-5"]

    Service.answer = NotYet("the service says no")
    looks_up.batch(looks_up.lane(6))
    Service.answer = MissingMasterData("device", "device-8")
    (gate,) = looks_up.batch(after_s=60)
    told = gate_told(gate.value)
    assert told is not None
    assert (told.reason, told.due_ms, told.tries) == ("missing_device", None, 2)
    Service.answer = None
    assert ids(looks_up.batch(after_s=60)) == []
    assert ids(looks_up.batch(came=("device-8",))) == ["event-6"]


def test_after_thousands_of_tries_while_it_was_away_pauses_begin_anew(world: World) -> None:
    Service.answer = NotYet("away", away=True)
    world.batch(world.lane(5))
    for _ in range(1_500):
        world.batch(after_s=300)
    Service.answer = NotYet("it is back, and says no")
    for _ in range(2):
        told = [gate_told(one.value) for one in world.batch(after_s=300) if one.topic == GATE]
    assert told[-1] is not None
    assert told[-1].due_ms == world.now_ms + 30_000  # after the second that counts


def test_what_waits_is_kept_by_the_policy_that_is_declared_now(world: World) -> None:
    Service.answer = NotYet("later", after_s=590)
    world.batch(world.lane(5))
    world.runs(f"{_FLOWS}:PATIENT")
    world.batch(starts=True)
    Service.answer = NotYet("later", after_s=3_600)
    assert parked([one for _ in range(3) for one in world.batch(after_s=600)]) == []
    world.runs(f"{_FLOWS}:FLOW")
    made = [*world.batch(starts=True), *world.batch()]
    assert parked(made) == ["not_yet"]


def test_what_waits_while_its_retry_is_taken_out_of_the_row_is_parked_with_what_to_do(
    world: World,
) -> None:
    world.batch(world.lane(5, 6))
    world.runs(f"{_FLOWS}:NO_MORE")
    made = [one for _ in range(13) for one in world.batch()]
    assert parked(made) == ["undeclared_wait", "undeclared_wait"]
    assert world.is_empty()


def test_where_others_wait_behind_a_parked_one_all_that_wait_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, flow=f"{_FLOWS}:FLOW", when_parked="wait")
    world.batch(world.lane(5, 6))
    made = world.batch(orders=(Order("give_up", "device-7"),))
    made += [one for _ in range(3) for one in world.batch()]
    assert parked(made) == ["given_up", "given_up"]
    Service.answer = None
    assert ids(world.batch(world.lane(7))) == []
    assert ids(world.batch(world.again(6))) == []  # the one before it is still parked
    assert ids(world.batch(world.again(5))) == ["event-5", "event-6", "event-7"]
    world.batch()
    assert world.is_empty()


def test_given_up_twice_or_tried_when_nothing_waits_nothing_happens(world: World) -> None:
    order = Order("give_up", "device-7")
    assert world.batch(orders=(order, Order("try", "device-8"))) == []
    world.batch(world.lane(5))
    made = [*world.batch(orders=(order,)), *world.batch(orders=(order,))]
    made += [one for _ in range(3) for one in world.batch(orders=(order,))]
    assert parked(made) == ["given_up"]
    assert world.is_empty()


def test_a_correction_that_cannot_be_made_yet_waits_as_one(world: World) -> None:
    value = b'{"value": 2}'
    place = Position(world.topic, 0, 5)
    first = FirstArrival(place, world.now_ms, attempt=1, revision=2)
    headers = [*headers_of(test_job.headers(5, value), first), (envelope.SUBJECT, b"device-7")]
    payload = test_job.Payload(place, b"device-7", value, headers, world.now_ms, 1, 2)
    lane = list(world.in_turn(payload, Position("again.enrich.v1", 0, 3), world.master))
    (gate,) = world.batch([*lane, *world.lane(6)])
    assert gate_told(gate.value).payloads == 2  # type: ignore[union-attr]
    Service.answer = None
    made = [one for _ in range(10) for one in world.batch()]
    assert ids(made) == ["event-5", "event-6"]
    event = test_job.read_event(Position(ORDERED, 0, 0), made[0].value or b"")
    assert (event.revision, event.attempt, event.data) == (2, 1, {"value": 2})


def test_where_nothing_can_wait_a_missing_row_is_no_reason_to_wait_either(world: World) -> None:
    Service.answer = MissingMasterData("device", "device-7")
    flow = test_job.load_flow(f"{_FLOWS}:FLOW")
    rows = tuple(replace(row, retry=None) for row in flow.endpoints)
    payload = test_job.Payload(Position(world.topic, 0, 5), b"device-7", b"{}", [], 1)
    (made,) = enricher(replace(flow, endpoints=rows))(payload, world.master)
    assert (made.topic, parked([made])) == (PARKED, ["undeclared_wait"])


class Gifts(World):
    """Of an endpoint whose payloads wait without order."""

    topic = "ingest.gift.v1"


@pytest.fixture
def gifts(monkeypatch: pytest.MonkeyPatch) -> World:
    return Gifts(monkeypatch, flow=f"{_FLOWS}:FLOW")


def lines_of(made: list[Outgoing]) -> list[bytes | None]:
    return [one.key for one in made if one.topic == GATE]


def test_what_waits_without_order_holds_up_nobody_and_nobody_holds_it_up(gifts: World) -> None:
    Service.answer = NotYet("late", after_s=100)
    lane = gifts.lane(5)
    Service.answer = NotYet("soon", after_s=10)
    lane += gifts.lane(6)
    assert Service.asked == 2
    Service.answer = None
    order = test_job.Payload(Position("ingest.order.v1", 0, 9), b"device-7", b"{}", [], 1)
    (made,) = gifts.in_turn(order, order.position, gifts.master)
    assert made.topic == ORDERED
    assert lines_of(gifts.batch(lane)) == [b"device-7\nevent-5", b"device-7\nevent-6"]
    assert ids(gifts.batch(after_s=10)) == ["event-6"]
    made, closed = gifts.batch(after_s=90)
    assert (made.key, ids([made])) == (b"device-7", ["event-5"])
    assert (closed.key, closed.value) == (b"device-7\nevent-6", None)
    gifts.batch()
    assert gifts.is_empty()


def test_a_batch_of_enrich_that_runs_again_tries_none_that_waits_without_order(
    gifts: World,
) -> None:
    """Its event would come twice, and the first time as a first attempt behind others."""
    gifts.batch(gifts.lane(5))
    Service.answer = None
    (made,) = gifts.lane(5)
    assert envelope.text(made.headers, envelope.REASON) == "behind"
    assert (Service.asked, made.key) == (1, b"device-7\nevent-5")


@pytest.mark.parametrize("when_parked", ["go_on", "wait"])
def test_what_waited_without_order_is_parked_as_any_and_holds_up_nobody_then(
    monkeypatch: pytest.MonkeyPatch, when_parked: str
) -> None:
    gifts = Gifts(monkeypatch, flow=f"{_FLOWS}:FLOW", when_parked=when_parked)
    gifts.batch(gifts.lane(5, 6))
    made = gifts.batch(orders=(Order("give_up", "device-7\nevent-5"),))
    made += [one for _ in range(3) for one in gifts.batch()]
    letters = [(one.key, parked([one])) for one in made if one.topic == PARKED]
    assert letters == [(b"device-7", ["given_up"])]
    Service.answer = None
    assert ids(gifts.batch(orders=(Order("try", "device-7\nevent-6"),))) == ["event-6"]
    gifts.batch()
    assert gifts.is_empty()


def test_what_cannot_be_is_parked_at_once_where_no_order_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gifts = Gifts(monkeypatch, flow=f"{_FLOWS}:FLOW", when_parked="wait")
    place = Position(gifts.topic, 0, 5)
    payload = test_job.Payload(place, b"device-7", b"?", [], gifts.now_ms)
    (made,) = gifts.in_turn(payload, place, gifts.master)
    assert (made.topic, made.key) == (PARKED, b"device-7")
    assert not gifts.gates.hold_any()


def test_a_start_by_the_same_rules_looks_at_none_before_its_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[object] = []
    serve = test_job.lines.serve

    def counted(line: object, *others: object) -> object:
        served.append(line)
        return serve(line, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(test_job.lines, "serve", counted)
    world.batch(world.lane(5))
    world.batch(starts=True)
    assert len(served) == 1
    world.runs(f"{_FLOWS}:PATIENT")
    world.batch(starts=True)
    assert len(served) == 2
