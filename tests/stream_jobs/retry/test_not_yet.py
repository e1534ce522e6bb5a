"""What an enrichment cannot do yet: when it is tried again, how often, and what stays in order."""

from collections.abc import Iterator

import pytest

from clients.kafka.records import Outgoing
from shared.events import envelope
from shared.model import NotYet
from stream_jobs.waiting.codec import Order, gate_told
from tests.stream_jobs.retry import test_job
from tests.stream_jobs.waiting_flow import Service

ORDERED, PARKED, GATE = "event.ordered.v1", "dlq.enrich.v1", "gate.enrich.v1"


class World(test_job.World):
    topic = "ingest.order.v1"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    Service.answer, Service.asked = NotYet("the service says no"), 0
    world = World(monkeypatch, flow="tests.stream_jobs.waiting_flow:FLOW")
    world.relay_is_away = True  # there is no master data of which it could say anything
    yield world
    Service.answer = None


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
