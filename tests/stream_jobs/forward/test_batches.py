"""Several events in one request."""

import pytest

from shared.forwarding.answer import Answer
from tests.stream_jobs.forward.forward_oracle import faults
from tests.stream_jobs.forward.world import OK, World

BATCHES = {"batch": 10}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def ids(*entities: str, count: int) -> list[tuple[str, str]]:
    return [(one, f"{one}-{number}") for number in range(count) for one in entities]


def test_events_of_all_entities_of_a_bucket_go_together(world: World) -> None:
    world.add(**BATCHES)
    world.batch(world.deliveries(*ids("a", "b", count=12)))
    assert [len(one) for one in world.requests] == [10, 10, 4]
    assert not faults(
        {one: [f"{one}-{number}" for number in range(12)] for one in "ab"},
        world.arrivals["alarms"],
        may_repeat=False,
    )
    assert len(world.of("delivery.v1")) == 24
    assert not any(world.handle.states.values())


def test_one_that_cannot_be_taken_is_found_and_given_up_alone(world: World) -> None:
    world.add(**BATCHES, retries={"age_max_s": 60})
    world.answers = lambda one: Answer(422, 5) if one.event.id == "b-3" else OK
    world.batch(world.deliveries(*ids("a", "b", count=10)))
    while world.waiting:
        world.sleep_until_it_looks()
        world.batch()
    (letter,) = (one for one in world.made if one.topic == "dlq.forward.v1")
    assert dict(letter.headers)["ce_id"] == b"b-3"
    done = {one.event_id for one in world.arrivals["alarms"] if one.is_done}
    assert done == {one for _, one in ids("a", "b", count=10)} - {"b-3"}


def test_an_answer_that_comes_late_counts_for_all_that_went_together(world: World) -> None:
    world.add(**BATCHES)
    world.is_slow = lambda one: one.event.id == "a-0"
    world.batch(world.deliveries(*ids("a", count=5)))
    assert world.waiting == 5
    world.batch(answers=world.under_way)
    assert world.waiting == 0
    assert world.requests == [["a-0", "a-1", "a-2", "a-3", "a-4"]]


def test_they_go_together_again_once_the_first_has_got_through(world: World) -> None:
    world.add(**BATCHES)
    world.answers = lambda _: Answer(500, 5)
    world.batch(world.deliveries(*ids("a", count=12)))
    world.answers = lambda _: OK
    world.sleep_until_it_looks()
    world.batch()
    world.batch()
    assert [len(one) for one in world.requests] == [10, 1, 10, 1]
