"""What a bucket does with its deliveries, by a clock that is turned."""

import random
from collections.abc import Sequence

import pytest

from shared.forwarding.answer import Answer
from shared.forwarding.hook import Hook, Status, record, status_key, status_record
from stream_jobs.forward.delivery import Delivery
from stream_jobs.forward.line import NEVER_MS
from tests.stream_jobs.forward.forward_oracle import Arrival, faults
from tests.stream_jobs.forward.world import BEGAN_MS, DOWN, OK, World

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def ids(entity: str, count: int, begin: int = 0) -> list[tuple[str, str]]:
    return [(entity, f"{entity}-{number}") for number in range(begin, begin + count)]


def seen(world: World, hook: str = "alarms") -> list[str]:
    return [one.event_id for one in world.arrivals.get(hook, ())]


def test_what_gets_through_at_once_is_never_kept(world: World) -> None:
    world.add()
    world.batch(world.deliveries(*ids("a", 3), *ids("b", 2)))
    assert sorted(seen(world)) == ["a-0", "a-1", "a-2", "b-0", "b-1"]
    assert not any(world.handle.states.values())
    assert [one["try"] for one in world.of("delivery.v1")] == [1] * 5
    assert not world.of("gate.forward.v1")
    assert world.look_ms == NEVER_MS


def test_an_entity_that_fails_holds_its_own_line_and_nobody_else(world: World) -> None:
    world.add()
    world.answers = lambda one: Answer(422, 5) if one.event.id == "a-0" else OK
    world.batch(world.deliveries(*ids("a", 3), *ids("b", 3)))
    assert seen(world) == ["a-0", "b-0", "b-1", "b-2"]
    assert world.waiting == 3
    world.batch(world.deliveries(*ids("a", 1, 3), *ids("b", 1, 3)))
    assert seen(world)[4:] == ["b-3"]
    world.answers = lambda _: OK
    world.sleep_until_it_looks()
    assert 5_000 <= world.now_ms - BEGAN_MS <= 6_000
    world.batch()
    world.batch()  # a line that has failed goes on by one, then by all
    assert seen(world)[5:] == ["a-0", "a-1", "a-2", "a-3"]
    assert world.waiting == 0


def test_without_order_one_that_fails_holds_up_none(world: World) -> None:
    world.add(order="none")
    world.answers = lambda one: Answer(422, 5) if one.event.id == "a-0" else OK
    world.batch(world.deliveries(*ids("a", 3)))
    assert sorted(seen(world)) == ["a-0", "a-1", "a-2"]
    assert world.waiting == 1


def test_a_server_that_is_down_is_asked_now_and_then_and_gets_all_when_it_is_back(
    world: World,
) -> None:
    """For 24 hours."""
    world.add()
    world.answers = lambda _: DOWN
    entities = [f"e{number}" for number in range(10)]
    world.batch(world.deliveries(*((entity, f"{entity}-0") for entity in entities)))
    first, number = world.tries, 1
    while world.now_ms < BEGAN_MS + DAY_MS:
        world.sleep_until_it_looks()
        came = [(entity, f"{entity}-{number}") for entity in entities] if number < 50 else []
        world.batch(world.deliveries(*came))
        number += 1
    assert world.tries - first <= DAY_MS / 60_000 + 20
    assert world.waiting == 500
    world.answers = lambda _: OK
    began_ms = world.now_ms
    while world.waiting:
        world.sleep_until_it_looks()
        world.batch()
    assert world.now_ms - began_ms <= 61_000
    sent = {entity: [f"{entity}-{number}" for number in range(50)] for entity in entities}
    assert not faults(sent, world.arrivals["alarms"])


def test_a_server_may_say_when_it_wants_to_be_asked_again(world: World) -> None:
    world.add()
    world.answers = lambda _: Answer(503, 5, retry_after="600")
    world.batch(world.deliveries(*ids("a", 1)))
    world.sleep_until_it_looks()
    assert world.now_ms == BEGAN_MS + 600_000
    world.batch(world.deliveries(*ids("b", 1)))


def test_a_410_ends_the_hook_and_what_waits_is_a_dead_letter(world: World) -> None:
    world.add()
    world.answers = lambda _: Answer(410, 5)
    world.batch(world.deliveries(*ids("a", 3)))
    (status,) = world.of("hooks.v1")
    assert status["state"] == "ended"
    world.batch(world.deliveries(*ids("b", 1)))
    assert len(seen(world)) == 1
    letters = [one for one in world.made if one.topic == "dlq.forward.v1"]
    assert len(letters) == 3
    assert {(b"hook_ended", b"alarms")} == {
        (dict(one.headers)["ce_reason"], dict(one.headers)["ce_hook"]) for one in letters
    }
    assert world.waiting == 0


def test_an_event_that_alone_fails_for_three_days_is_a_dead_letter_and_others_go_on(
    world: World,
) -> None:
    world.add()
    world.answers = lambda one: Answer(422, 5, "no") if one.event.id == "a-0" else OK
    world.batch(world.deliveries(*ids("a", 2)))
    while world.waiting:
        assert world.now_ms < BEGAN_MS + 3 * DAY_MS + 5 * HOUR_MS
        world.sleep_until_it_looks()
        world.batch()
    (letter,) = (one for one in world.made if one.topic == "dlq.forward.v1")
    headers = dict(letter.headers)
    assert headers["ce_reason"] == b"not_delivered"
    assert headers["ce_detail"] == b"status 422: no"
    assert world.now_ms >= BEGAN_MS + 3 * DAY_MS
    assert seen(world)[-1] == "a-1"
    assert not world.of("hooks.v1")


def test_a_hook_whose_server_fails_all_the_time_is_paused_and_loses_nothing(world: World) -> None:
    hook = world.add(retries={"age_max_s": 6 * 3600})
    world.answers = lambda _: DOWN
    world.batch(world.deliveries(*ids("a", 2), *ids("b", 2)))
    while not world.of("hooks.v1"):
        world.sleep_until_it_looks()
        world.batch()
    (status,) = world.of("hooks.v1")
    assert status["state"] == "paused"
    assert "ConnectError" in status["why"]
    assert 6 * HOUR_MS <= world.now_ms - BEGAN_MS <= 7 * HOUR_MS
    assert world.look_ms == NEVER_MS
    world.batch(world.deliveries(*ids("c", 1)))
    assert world.waiting == 5
    assert not [one for one in world.made if one.topic == "dlq.forward.v1"]
    world.now_ms += 9 * DAY_MS
    world.hooks.hear(b"alarms", hook.changed(paused=False).model_dump_json().encode())
    world.batch()
    for _ in range(20):  # its server has as much time as at first
        world.sleep_until_it_looks()
        world.batch()
    assert len(world.of("hooks.v1")) == 1
    world.answers = lambda _: OK
    while world.waiting:
        world.sleep_until_it_looks()
        world.batch()
    sent = {"a": ["a-0", "a-1"], "b": ["b-0", "b-1"], "c": ["c-0"]}
    assert not faults(sent, world.arrivals["alarms"])


def test_the_days_in_which_forward_pauses_are_nobodys(world: World) -> None:
    """A server is away for an hour, forward pauses for nine days, and then it is away for a while
    longer."""
    world.add()
    world.answers = lambda one: Answer(422, 5) if one.event.entity == "b" else DOWN
    world.batch(world.deliveries(*ids("a", 2), *ids("b", 2)))
    while world.now_ms < BEGAN_MS + HOUR_MS:
        world.sleep_until_it_looks()
        world.batch()
    world.now_ms += 9 * DAY_MS
    for _ in range(20):
        world.batch()
        world.sleep_until_it_looks()
    assert not world.of("hooks.v1")
    assert not world.of("dlq.forward.v1")
    while not (world.of("hooks.v1") or world.of("dlq.forward.v1")):
        world.batch()
        world.sleep_until_it_looks()
    assert 3 * DAY_MS <= world.now_ms - BEGAN_MS - 9 * DAY_MS <= 3 * DAY_MS + 7 * HOUR_MS


def test_a_hook_whose_secret_cannot_be_opened_waits_and_says_so_and_others_go_on(
    world: World,
) -> None:
    world.add("sealed")
    world.add("other")
    world.unsealed.add("sealed")
    events = ids("a", 2)
    world.batch(
        [*world.deliveries(*events, hook="sealed"), *world.deliveries(*events, hook="other")]
    )
    assert not seen(world, "sealed")
    assert seen(world, "other") == ["a-0", "a-1"]
    (told,) = (one for one in world.of("delivery.v1") if one["hook"] == "sealed")
    assert told["said"] == "not sent: the secret of sealed was sealed with another key"
    world.unsealed.clear()
    while world.waiting:
        world.sleep_until_it_looks()
        world.batch()
    assert seen(world, "sealed") == ["a-0", "a-1"]


def test_what_waits_for_a_hook_that_is_deleted_is_dropped(world: World) -> None:
    world.add()
    world.answers = lambda _: DOWN
    world.batch(world.deliveries(*ids("a", 2)))
    world.hooks.hear(b"alarms", None)
    world.batch()
    assert not any(world.handle.states.values())
    assert world.waiting == 0


def test_a_hook_that_is_added_anew_under_its_name_gets_nothing_that_was_for_the_old_one(
    world: World,
) -> None:
    world.add()
    world.answers = lambda _: DOWN
    world.batch(world.deliveries(*ids("a", 2)))
    under_way = world.deliveries(*ids("a", 1, 2))
    world.now_ms += 1_000
    world.hooks.hear(b"alarms", None)
    world.add(made_ms=world.now_ms, url="https://example.com/other")
    world.answers, world.arrivals = lambda _: OK, {}
    world.batch([*under_way, *world.deliveries(*ids("a", 1, 3))])
    assert seen(world) == ["a-3"]
    assert world.waiting == 0
    assert not any(world.handle.states.values())


def test_a_gate_of_a_state_that_is_lost_is_cleared_by_whoever_looks(world: World) -> None:
    world.add()
    world.answers = lambda _: DOWN
    events = world.deliveries(*ids("a", 1))
    world.batch(events)
    assert world.waiting == 1
    world.handle.states.clear()
    world.answers = lambda _: OK
    world.batch(events)
    world.batch()
    assert world.waiting == 0


def resumed(world: World, hook: Hook) -> Hook:
    again = hook.changed(paused=False)
    world.hooks.hear(b"alarms", record(again))
    return again


def test_whoever_resumes_a_hook_begins_anew_in_a_bucket_that_has_not_paused_it(
    world: World,
) -> None:
    hook = world.add()
    world.answers = lambda _: DOWN
    world.batch(world.deliveries(*ids("a", 1), *ids("b", 1), *ids("c", 1), *ids("d", 1)))
    said = Status(state="paused", why="down", at_ms=world.now_ms, revision=hook.revision)
    world.hooks.hear(status_key("alarms"), status_record(said))  # by another bucket
    world.now_ms += 4 * DAY_MS
    world.batch()
    resumed(world, hook)
    world.batch()
    assert world.tries == 8  # it is not down any more
    assert not world.of("hooks.v1")
    assert not [one for one in world.made if one.topic == "dlq.forward.v1"]
    world.answers = lambda _: OK
    while world.waiting:
        world.sleep_until_it_looks()
        world.batch()
    assert sorted(seen(world)[-4:]) == ["a-0", "b-0", "c-0", "d-0"]


def test_the_time_that_its_owner_has_paused_it_counts_for_no_event(world: World) -> None:
    hook = world.add()
    world.answers = lambda _: Answer(422, 5)
    world.batch(world.deliveries(*ids("a", 1)))
    paused = hook.changed(paused=True)
    world.hooks.hear(b"alarms", record(paused))
    world.batch()
    world.now_ms += 5 * DAY_MS
    resumed(world, paused)
    world.batch()
    assert world.waiting == 1
    assert not [one for one in world.made if one.topic == "dlq.forward.v1"]


def test_whoever_resumes_a_hook_does_not_wait_as_long_as_its_server_has_asked_for(
    world: World,
) -> None:
    hook = world.add()
    world.answers = lambda _: Answer(503, 5, retry_after="86400")
    world.batch(world.deliveries(*ids("a", 1)))
    world.answers = lambda _: OK
    resumed(world, hook)
    world.batch()
    assert world.waiting == 0


@pytest.mark.parametrize("state", ["gone", "ended", "added anew"])
def test_a_letter_that_is_sent_on_again_to_a_hook_that_takes_nothing_comes_back(
    world: World, state: str
) -> None:
    hook = world.add()
    if state == "ended":
        said = Status(state=state, why="status 410", at_ms=1, revision=hook.revision)
        world.hooks.hear(status_key("alarms"), status_record(said))
    else:
        world.hooks.hear(b"alarms", None)
    if state == "added anew":
        world.add(made_ms=BEGAN_MS + 1)
    world.batch(world.deliveries(*ids("a", 1), topic="again.forward.v1"))
    (letter,) = (one for one in world.made if one.topic == "dlq.forward.v1")
    headers = dict(letter.headers)
    reason = b"hook_ended" if state == "ended" else b"hook_gone"
    assert (headers["ce_reason"], headers["ce_hook"]) == (reason, b"alarms")
    assert not seen(world)


def test_what_a_hook_allows_no_sooner_is_not_looked_at_before(world: World) -> None:
    world.add()
    world.not_before_ms = BEGAN_MS + 4_000
    world.batch(world.deliveries(*ids("a", 1), *ids("b", 1)))
    assert world.look_ms == BEGAN_MS + 4_000
    world.batch()
    assert not seen(world)
    world.now_ms, world.not_before_ms = BEGAN_MS + 4_000, 0
    world.batch()
    assert sorted(seen(world)) == ["a-0", "b-0"]


def test_an_answer_that_no_batch_has_waited_for_lets_its_line_go_on(world: World) -> None:
    world.add()
    world.is_slow = lambda one: one.event.id == "a-0"
    world.batch(world.deliveries(*ids("a", 2)))
    assert seen(world) == ["a-0"]
    world.batch(world.deliveries(*ids("a", 1, 2)))
    assert seen(world) == ["a-0"]
    world.batch(answers=world.under_way)
    assert seen(world) == ["a-0", "a-1", "a-2"]
    world.batch(answers=world.under_way)  # told twice
    assert world.waiting == 0


def test_an_answer_that_never_comes_is_no_answer(world: World) -> None:
    world.add()
    world.is_slow = lambda _: world.tries == 1
    world.batch(world.deliveries(*ids("a", 1)))
    world.sleep_until_it_looks()
    assert world.now_ms == BEGAN_MS + 20_000
    world.batch()
    world.sleep_until_it_looks()
    world.batch()
    assert [one["status"] for one in world.of("delivery.v1")] == [None, 200]


def test_a_late_answer_to_an_event_counts_for_no_other_one_of_its_line(world: World) -> None:
    world.add()
    world.is_slow = lambda _: world.tries == 1
    world.batch(world.deliveries(*ids("a", 1)))
    late = world.under_way
    world.now_ms += 30_000
    world.batch()
    world.sleep_until_it_looks()
    world.batch()  # it gets through otherwise, and its line is forgotten
    world.answers = lambda _: DOWN
    world.batch(world.deliveries(*ids("a", 1, 1)))
    world.batch(answers=late)
    assert world.waiting == 1


@pytest.mark.parametrize("seed", range(25))
def test_no_schedule_of_faults_and_kills_loses_an_event_or_its_order(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    world, dice = World(monkeypatch), random.Random(seed)
    world.add(retries={"age_max_s": 30 * 86_400})
    entities = [f"e{number}" for number in range(dice.randrange(1, 6))]
    sent: dict[str, list[str]] = {entity: [] for entity in entities}
    bad = [DOWN, Answer(500, 5), Answer(422, 5), Answer(503, 5, retry_after="5"), Answer(200, 2000)]
    rate = dice.choice((0.1, 0.5, 0.9))

    def answers(_: Delivery) -> Answer:
        return dice.choice(bad) if dice.random() < rate else OK

    world.answers, world.is_slow = answers, lambda _: dice.random() < 0.2
    for _ in range(60):
        came = []
        for entity in dice.sample(entities, dice.randrange(len(entities) + 1)):
            one = f"{entity}-{len(sent[entity])}"
            sent[entity].append(one)
            came.append((entity, one))
        deliveries = world.deliveries(*came)
        if dice.random() < 0.3:
            world.killed_batch(deliveries)
            if dice.random() < 0.5:
                world.under_way.clear()
        told, world.under_way = world.under_way, []
        dice.shuffle(told)
        cut = dice.randrange(len(told) + 1)
        world.under_way = told[cut:]
        world.batch(deliveries, told[:cut])
        world.now_ms += dice.choice((10, 1_000, 100_000))
    rate = 0
    world.is_slow = lambda _: False
    for _ in range(2_000):
        if not world.waiting:
            break
        told, world.under_way = world.under_way, []
        world.sleep_until_it_looks()
        world.batch((), told)
    assert not faults(sent, world.arrivals["alarms"])


def _lies(honest: Sequence[Arrival]) -> dict[str, list[Arrival]]:
    one, two, three = honest
    return {
        "missing": [one, two],
        "out of order": [two, one, three],
        "not got through": [one, two._replace(is_done=False), three],
        "of nobody": [*honest, Arrival("b", "b-0", True)],
        "never sent": [*honest, Arrival("a", "a-9", True)],
    }


def test_the_oracle_believes_what_is_right_and_no_lie() -> None:
    honest = [Arrival("a", f"a-{number}", True) for number in range(3)]
    sent = {"a": ["a-0", "a-1", "a-2"]}
    assert not faults(sent, honest)
    assert not faults(sent, [honest[0], *honest])
    assert faults(sent, [honest[0], *honest], may_repeat=False)
    for name, lie in _lies(honest).items():
        assert faults(sent, lie), name


def test_nobody_looks_while_a_server_that_is_down_has_a_try_under_way(world: World) -> None:
    world.add()
    world.answers = lambda _: DOWN
    world.batch(world.deliveries(*ids("a", 1), *ids("b", 1), *ids("c", 1)))
    world.is_slow = lambda _: True
    world.sleep_until_it_looks()
    world.batch()
    assert len(world.under_way) == 1
    world.sleep_until_it_looks()
    assert world.now_ms > world.under_way[0][1].at_ms + 15_000
