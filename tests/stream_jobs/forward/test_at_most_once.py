"""What a hook gets that wants nothing twice."""

import random
from collections import Counter
from pathlib import Path

import pytest

from shared.forwarding.answer import Answer
from shared.settings import JobSettings
from stream_jobs.forward.at_most_once import Begun, begin_anew, begun
from tests.stream_jobs.forward.world import DOWN, OK, World

ONCE = {"delivery": "at most once"}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def seen(world: World) -> list[str]:
    return [one.event_id for one in world.arrivals.get("alarms", ())]


@pytest.mark.parametrize("answer", [Answer(500, 5), Answer(422, 5), DOWN])
def test_what_fails_is_not_tried_again(world: World, answer: Answer) -> None:
    world.add(**ONCE)
    world.answers = lambda one: answer if one.event.id == "a-0" else OK
    world.batch(world.deliveries(("a", "a-0"), ("a", "a-1"), ("b", "b-0")))
    world.batch()
    assert sorted(seen(world)) == ["a-0", "a-1", "b-0"]
    assert world.waiting == 0
    assert not [one for one in world.made if one.topic == "dlq.forward.v1"]
    assert {one["event_id"]: one["verdict"] for one in world.of("delivery.v1")}["a-0"] == "failed"


def test_an_answer_that_never_comes_is_no_reason_to_send_it_again(world: World) -> None:
    world.add(**ONCE)
    world.is_slow = lambda one: one.event.id == "a-0"
    world.batch(world.deliveries(("a", "a-0"), ("a", "a-1")))
    world.sleep_until_it_looks()
    world.batch()
    world.batch()
    assert seen(world) == ["a-0", "a-1"]


@pytest.mark.parametrize("fields", [{}, {"order": "none"}, {"batch": 5}])
def test_through_kills_nothing_comes_twice_and_little_is_left_out(
    world: World, fields: dict[str, object]
) -> None:
    dice = random.Random(5)
    world.add(**ONCE, **fields)
    world.answers = lambda _: dice.choice([OK, OK, OK, Answer(500, 5), Answer(422, 5), DOWN])
    world.is_slow = lambda _: dice.random() < 0.1
    kills = sent = 0
    for number in range(300):
        entities = [f"e{entity}" for entity in range(12) if dice.random() < 0.5]
        came = world.deliveries(*((one, f"{one}-{number}") for one in entities))
        if dice.random() < 0.1:  # enrich writes them again
            came += world.deliveries(*((one, f"{one}-{number}") for one in entities))
        sent += len(entities)
        chance = 0.1
        while dice.random() < chance:  # a batch that runs again may be killed, too
            world.killed_batch(came)
            kills += 1
            chance = 0.5
        world.batch(came)
        if dice.random() < 0.5:
            world.sleep_until_it_looks()
        else:
            world.now_ms += 500
    world.answers, world.is_slow = lambda _: OK, lambda _: False
    while world.waiting:
        world.sleep_until_it_looks()
        world.batch()
    counts = Counter(seen(world))
    assert max(counts.values()) == 1
    assert kills > 10
    assert 0.5 < len(counts) / sent <= 1


def test_at_least_once_the_same_rig_sees_repeats(world: World) -> None:
    world.add()
    came = world.deliveries(("a", "a-0"))
    world.killed_batch(came)
    world.batch(came)
    assert seen(world) == ["a-0", "a-0"]


def test_without_its_checkpoint_it_gets_what_comes_from_then_on(world: World) -> None:
    world.add(**ONCE)
    world.begun = Begun(None, (("event.reading.v1", 0, 3),))
    world.batch(world.deliveries(*(("a", f"a-{number}") for number in range(1, 5))))
    assert seen(world) == ["a-3", "a-4"]
    assert [one["event_id"] for one in world.of("delivery.v1")][:2] == ["a-1", "a-2"]


def test_the_driver_knows_which_batch_runs_again_and_where_it_has_begun_anew(
    tmp_path: Path,
) -> None:
    job_folder = JobSettings(kafka_bootstrap="127.0.0.1:9", state_dir=tmp_path)
    job_folder.checkpoints.mkdir()
    checkpoint = job_folder.checkpoints / "forward"
    assert begun(job_folder) == Begun()
    begin_anew(job_folder, {("event.reading.v1", 0): 7})
    for name, numbers in (("offsets", (0, 1, 2)), ("commits", (0, 1))):
        (checkpoint / name).mkdir(parents=True)
        for number in numbers:
            (checkpoint / name / str(number)).touch()
    assert begun(job_folder) == Begun(2, (("event.reading.v1", 0, 7),))
    (checkpoint / "commits" / "2").touch()
    assert begun(job_folder).unfinished is None


def kept(world: World) -> dict[str, object]:
    its = world.handle.states["kept"].items()
    return {key: value for (kind, key), value in its if kind == "sent"}


def test_of_a_hook_that_is_deleted_nothing_is_kept_and_each_batch_removes_a_bounded_part(
    world: World,
) -> None:
    world.add(**ONCE)
    world.add("others", **ONCE)
    entities = [f"e{number}" for number in range(3_000)]
    for at in range(0, len(entities), 700):
        some = [(entity, f"{entity}-0") for entity in entities[at : at + 700]]
        world.batch(world.deliveries(*some) + world.deliveries(*some[:10], hook="others"))
    world.batch(world.deliveries(("e0", "e0-1")))
    its = {key for key in kept(world) if key.startswith("alarms\n")}
    assert len(its) > len(entities)
    world.hooks.hear(b"alarms", None)
    before, batches = len(kept(world)), 0
    while world.look_ms == 0 or not batches:
        world.batch()
        batches += 1
        assert before - len(kept(world)) <= 2_100
        before = len(kept(world))
    assert batches > 1
    assert not [key for key in kept(world) if key.startswith("alarms\n")]
    repeated = world.deliveries(("e0", "e0-0"), ("e700", "e700-0"), ("e1", "e1-9"), hook="others")
    world.arrivals.clear()
    world.batch(repeated)
    assert [one.event_id for one in world.arrivals["others"]] == ["e1-9"]
    world.hooks.hear(b"others", None)
    world.batch()
    assert not kept(world)


def test_one_that_is_added_anew_meanwhile_is_forgotten_whole_when_it_goes_too(
    world: World,
) -> None:
    entities = [(f"e{number}", f"e{number}-0") for number in range(3_000)]
    for _ in range(2):
        world.add(**ONCE)
        world.batch(world.deliveries(*entities))
        world.hooks.hear(b"alarms", None)
        world.batch()  # some of it
    while world.look_ms == 0:
        world.batch()
    assert not kept(world)
