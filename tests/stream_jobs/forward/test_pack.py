"""What a task that reads the topics makes of their records."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from clients.kafka.records import Outgoing
from desk.letters.redrive_target import redrive_target
from shared.events.envelope import Position, event_headers, event_value
from shared.flow import FLOW
from shared.folding import snapshot
from shared.folding.snapshot import Snapshot
from shared.forwarding.answer import Answer
from shared.forwarding.hook import Hooks, new_hook, record
from shared.published import dead_letters
from stream_jobs.forward import job
from stream_jobs.forward.delivery import Delivery, Try, answer_record, dead_letter
from stream_jobs.forward.hook_feed import FeedTask
from tests.builders import event_record
from tests.stream_jobs.messages import Message

NOW_MS = 1_700_000_000_000
BUCKETS = (0, 1, 2, 4)


class Feed:
    def __init__(self, *hooks: dict[str, Any]) -> None:
        self._hooks = Hooks()
        for fields in hooks:
            url = "https://example.org/in"
            hook = new_hook(**{"url": url, "made_ms": NOW_MS, **fields})
            self._hooks.hear(hook.name.encode(), record(hook))

    def look(self) -> Hooks:
        return self._hooks


def packed(
    monkeypatch: pytest.MonkeyPatch, feed: Feed, *messages: Message
) -> dict[int, tuple[list[Delivery], list[tuple[str, Try]]]]:
    monkeypatch.setattr(job, "hook_feed", lambda _task: feed)
    task = FeedTask(None, Path("key"))  # type: ignore[arg-type]
    (batch,) = job.pack(iter([list(messages)]), task, BUCKETS, FLOW.state_by_topic)
    found = {}
    for row in batch.to_pylist():
        deliveries, answers = pickle.loads(row["packed"])
        found[row["bucket"]] = [Delivery.unpack(raw) for raw in deliveries], answers
    return found


def message(place: Position, one: Outgoing, at_ms: int = NOW_MS) -> Message:
    return Message(place, one.key, one.value, one.headers, at_ms)


def an_event(entity: str = "device-0001", at_ms: int = NOW_MS) -> Message:
    one = event_record(entity_id=entity)
    made = Outgoing(one.position.topic, entity.encode(), event_value(one), event_headers(one))
    return message(one.position, made, at_ms)


def test_all_mails_of_a_hook_are_in_one_bucket_and_each_entity_waits_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed = Feed({"name": "ops", "url": "mailto:ops@example.org"})
    found = packed(monkeypatch, feed, *(an_event(f"e{n % 9}") for n in range(90)))
    ((bucket, (deliveries, _)),) = found.items()
    assert len(deliveries) == 90
    (hook,) = feed.look().all()
    assert len({one.line(hook, bucket) for one in deliveries}) == 9


def a_state(version: int, entity: str = "device-0001", at_ms: int = NOW_MS) -> Message:
    place = Position("state.device.v1", 0, version)
    value = snapshot.encode(Snapshot({"value": version}, version, 5), "f")
    return Message(place, entity.encode(), value, [], at_ms)


def test_an_event_goes_to_each_hook_that_asks_for_it_and_all_of_an_entity_to_one_bucket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed = Feed({"name": "all"}, {"name": "hot", "where": ["value > 30"]}, {"name": "too"})
    found = packed(monkeypatch, feed, *(an_event(f"e{n % 9}") for n in range(90)))
    buckets: dict[str, set[int]] = {}
    for bucket, (deliveries, _) in found.items():
        for one in deliveries:
            buckets.setdefault(one.whose, set()).add(bucket)
    assert len(buckets) == 18
    assert all(len(own) == 1 for own in buckets.values())
    assert {line.partition("\n")[0] for line in buckets} == {"all", "too"}
    assert len({bucket for own in buckets.values() for bucket in own}) > 1


def test_a_hook_gets_nothing_that_was_there_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Feed({"name": "one"})
    found = packed(monkeypatch, feed, an_event("a", NOW_MS - 1), an_event("b", NOW_MS))
    ((deliveries, _),) = found.values()
    assert [one.event.entity for one in deliveries] == ["b"]


def test_a_state_goes_as_an_event_to_the_hooks_of_states_and_an_event_to_none_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed = Feed(
        {"name": "events"},
        {"name": "mirror", "of": "states"},
        {"name": "high", "of": "states", "where": ["value > 1"]},
        {"name": "areas", "of": "states", "types": ["area"]},
    )
    came = [an_event(), a_state(1), a_state(2), a_state(3, at_ms=NOW_MS - 1)]
    found = packed(monkeypatch, feed, *came)
    got: dict[str, list[Delivery]] = {}
    for deliveries, _ in found.values():
        for one in deliveries:
            got.setdefault(one.hook, []).append(one)
    assert got.keys() == {"events", "mirror", "high"}
    assert [one.event.data["version"] for one in got["mirror"]] == [1, 2]
    assert [one.event.data["version"] for one in got["high"]] == [2]
    assert got["mirror"][0].event.attributes["type"] == "state.device"


def test_what_is_no_snapshot_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = a_state(1)._replace(its_value=b"{}")
    found = packed(monkeypatch, Feed({"name": "mirror", "of": "states"}), broken, a_state(2))
    ((deliveries, _),) = found.values()
    assert [one.event.data["version"] for one in deliveries] == [2]


def test_a_state_that_was_not_taken_is_redriven_as_the_event_that_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed = Feed({"name": "mirror", "of": "states"})
    ((sent, _),) = packed(monkeypatch, feed, a_state(7)).values()
    parked = dead_letter(sent[0], 9, "not_delivered", "status 422")
    its = Position(parked.topic, 0, 7), NOW_MS, parked.key, parked.value, parked.headers
    target = redrive_target(FLOW, dead_letters.read(FLOW, *its), 1)
    assert isinstance(target, Outgoing)
    ((again, _),) = packed(
        monkeypatch, feed, message(Position(target.topic, 0, 0), target)
    ).values()
    assert (again[0].event.id, again[0].event.data) == (sent[0].event.id, sent[0].event.data)


def test_a_wake_goes_to_every_bucket_and_an_answer_to_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = Try(3, "event-0", 1, NOW_MS, Answer(503, 1_700, "busy", "7"))
    told = answer_record(2, "one\ndevice-0001", of)
    place = Position("wake.forward.v1", 0, 0)
    assert packed(monkeypatch, Feed(), message(place, told)) == {
        2: ([], [("one\ndevice-0001", of)])
    }
    wake = Outgoing(told.topic, None, b"{}", [])
    assert packed(monkeypatch, Feed(), message(place, wake)) == dict.fromkeys(BUCKETS, ([], []))


def test_a_dead_letter_that_is_redriven_reaches_its_hook_again_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed = Feed({"name": "one", "made_ms": NOW_MS}, {"name": "other"})
    ((sent, _),) = packed(monkeypatch, Feed({"name": "one"}), an_event()).values()
    (delivery,) = sent
    parked = dead_letter(delivery, 9, "not_delivered", "status 422")
    place = Position(parked.topic, 0, 7)
    its = place, NOW_MS, parked.key, parked.value, parked.headers
    letter = dead_letters.read(FLOW, *its)
    assert letter.last.cause == "not_delivered"
    target = redrive_target(FLOW, letter, 1)
    assert isinstance(target, Outgoing)
    back = message(Position(target.topic, 0, 0), target, NOW_MS - 5_000)
    ((again, _),) = packed(monkeypatch, feed, back).values()
    assert [one.hook for one in again] == ["one"]
    assert again[0].value == delivery.value
    assert again[0].event.attributes == delivery.event.attributes


def test_a_dead_letter_whose_hook_is_gone_reaches_a_bucket_and_comes_back_as_the_same_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ((sent, _),) = packed(monkeypatch, Feed({"name": "one"}), an_event()).values()
    place = Position("dlq.forward.v1", 0, 7)
    parked = dead_letter(sent[0], 9, "not_delivered", "status 422")
    its = place, NOW_MS, parked.key, parked.value, parked.headers
    letter = dead_letters.read(FLOW, *its)
    target = redrive_target(FLOW, letter, 1)
    assert isinstance(target, Outgoing)
    back = message(Position(target.topic, 0, 0), target)
    ((again, _),) = packed(monkeypatch, Feed({"name": "other"}), back).values()
    (delivery,) = again
    assert (delivery.hook, delivery.is_again) == ("one", True)
    gone = dead_letter(delivery, 0, "hook_gone", "")
    its = place, NOW_MS, gone.key, gone.value, gone.headers
    came_back = dead_letters.read(FLOW, *its)
    assert came_back.id == letter.id
    assert came_back.last.number > letter.last.number


def test_what_two_hooks_did_not_take_is_two_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    found = packed(monkeypatch, Feed({"name": "a"}, {"name": "b"}), an_event())
    sent = [one for deliveries, _ in found.values() for one in deliveries]
    parked = [dead_letter(one, 9, "not_delivered", "status 422") for one in sent]
    place = Position("dlq.forward.v1", 0, 7)
    letters = [
        dead_letters.read(FLOW, place, NOW_MS, one.key, one.value, one.headers) for one in parked
    ]
    assert len({letter.id for letter in letters}) == 2
