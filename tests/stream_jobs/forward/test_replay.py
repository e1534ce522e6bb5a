"""What is replayed to a hook, beside what is new."""

import pytest

from shared.forwarding.answer import Answer
from tests.stream_jobs.forward.world import OK, World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def seen(world: World) -> list[str]:
    return [one.event_id for one in world.arrivals.get("alarms", ())]


def test_what_is_new_goes_before_what_is_replayed_and_each_in_its_order(world: World) -> None:
    world.add()
    world.batch(
        [
            *world.replays(("a", "a-0"), ("b", "b-0"), ("a", "a-1")),
            *world.deliveries(("a", "a-2"), ("b", "b-1")),
        ]
    )
    assert set(seen(world)[:2]) == {"a-2", "b-1"}
    assert set(seen(world)[2:]) == {"a-0", "a-1", "b-0"}
    assert seen(world).index("a-0") < seen(world).index("a-1")


def test_one_that_fails_holds_up_nothing_that_is_new(world: World) -> None:
    world.add()
    world.answers = lambda one: Answer(422, 5) if one.event.id == "a-0" else OK
    world.batch(world.replays(("a", "a-0"), ("a", "a-1")))
    world.batch(world.deliveries(("a", "a-2")))
    assert seen(world) == ["a-0", "a-2"]
    world.answers = lambda _: OK
    while world.waiting:
        world.sleep_until_it_looks()
        world.batch()
    assert seen(world) == ["a-0", "a-2", "a-0", "a-1"]


def test_whoever_wants_each_once_gets_what_is_asked_for_once_more(world: World) -> None:
    world.add(delivery="at most once")
    world.batch(world.deliveries(("a", "a-0")))
    world.batch(world.replays(("a", "a-0")))
    assert seen(world) == ["a-0", "a-0"]


def test_a_replay_that_is_given_up_is_the_letter_of_its_event(world: World) -> None:
    world.add(retries={"age_max_s": 60})
    world.answers = lambda _: Answer(422, 5)
    world.batch(world.replays(("a", "a-0")))
    while world.waiting:
        world.sleep_until_it_looks()
        world.batch()
    (letter,) = (one for one in world.made if one.topic == "dlq.forward.v1")
    assert "ce_replay" not in dict(letter.headers)
