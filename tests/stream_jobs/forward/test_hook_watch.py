"""What the driver of forward does beside its query."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from clients.kafka.records import Outgoing
from shared.events.envelope import Position
from shared.flow import FLOW
from shared.forwarding.hook import Status, new_hook, record, status_key, status_record
from shared.settings import JobSettings
from stream_jobs.forward import beginning, hook_watch, job
from stream_jobs.forward.delivery import gate_value
from stream_jobs.forward.hook_watch import NO_HOOK, HookWatch
from tests.stream_jobs.messages import Message

PAUSED = Status(state="paused", why="it is down", at_ms=1, revision=1)
HOOK = new_hook(name="alarms", url="https://example.org/in", made_ms=1)
GATE = gate_value(1, {"alarms": 3})


class Topics:
    """Those of hooks and gates, and who follows and writes them."""

    def __init__(self) -> None:
        self._unread: list[Message] = []
        self.written: list[Outgoing] = []

    def put(self, topic: str, key: bytes, value: bytes | None) -> None:
        self._unread.append(Message(Position(topic, 0, 0), key, value, []))

    def go_on_from(self, _places: object) -> None:
        pass

    def to_the_end(self, _within_s: float) -> Sequence[Message]:
        read, self._unread = self._unread, []
        return read

    def produce(self, topic: str, value: bytes | None, key: bytes = b"", **options: object) -> None:
        self.written.append(Outgoing(topic, key, value, []))
        if callable(answered := options.get("on_delivery")):
            answered(None, None)

    def poll(self, _s: float) -> None:
        pass

    flush = poll

    def cleared(self) -> list[bytes | None]:
        return [one.key for one in self.written if one[::2] == ("gate.forward.v1", None)]


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    topics = Topics()
    monkeypatch.setattr(hook_watch, "LogFollower", lambda *_: topics)
    monkeypatch.setattr(hook_watch, "writer", lambda *_: topics)
    monkeypatch.setattr(hook_watch, "_LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(beginning, "start", lambda *_: None)
    return topics


def test_with_the_last_hook_the_gates_go(topics: Topics, tmp_path: Path) -> None:
    watch = HookWatch(JobSettings(state_dir=tmp_path), FLOW)
    topics.put("hooks.v1", b"alarms", record(HOOK))
    topics.put("gate.forward.v1", b"0", GATE)
    assert not watch.rests()
    topics.put("hooks.v1", b"alarms", None)
    assert watch.rests() == NO_HOOK
    watch.begin_rest()
    watch.begin_rest()
    assert topics.cleared() == [b"0"]


def test_a_gate_of_a_bucket_that_is_no_more_goes_once_all_that_are_have_told(
    topics: Topics, tmp_path: Path
) -> None:
    settings = JobSettings(state_dir=tmp_path)
    buckets = job.buckets(settings)
    watch = HookWatch(settings, FLOW)
    topics.put("hooks.v1", b"alarms", record(HOOK))
    topics.put("gate.forward.v1", str(buckets[0]).encode(), GATE)
    topics.put("gate.forward.v1", b"4711", GATE)
    assert not watch.rests()
    watch.start()
    watch.hear({job.LOOKS: 1, job.LOOK_MS: None})
    watch.step()
    assert topics.cleared() == []
    watch.hear({job.LOOKS: len(buckets), job.LOOK_MS: None})
    watch.step()
    assert topics.cleared() == [b"4711"]


def test_while_forward_pauses_it_tells_of_hooks_that_have_stopped(
    topics: Topics, tmp_path: Path
) -> None:
    """A process that was started meanwhile has asked it for nothing yet."""
    watch = HookWatch(JobSettings(state_dir=tmp_path), FLOW)
    topics.put("hooks.v1", b"alarms", record(HOOK))
    topics.put("hooks.v1", status_key("alarms"), status_record(PAUSED))
    assert watch.numbers()["hooks"]["stopped"] == {"alarms": "paused: it is down"}
