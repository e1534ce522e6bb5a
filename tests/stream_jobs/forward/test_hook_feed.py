"""The hooks as a worker process knows them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from shared.events.envelope import Position
from shared.forwarding.hook import Hook, Status, new_hook, record, status_key, status_record
from stream_jobs.forward import hook_feed
from stream_jobs.forward.hook_feed import FeedTask, HookFeed
from stream_jobs.supervision.failure import judge
from tests.stream_jobs.messages import Message

HOOK = new_hook(name="alarms", url="https://example.org/in", made_ms=1)
NEWER = record(HOOK).replace(b'"name"', b'"colour":"red","name"')


class Log:
    """The topic of hooks."""

    def __init__(self) -> None:
        self._unread: list[Message] = []

    def write(self, key: bytes, value: bytes | None) -> None:
        self._unread.append(Message(Position("hooks.v1", 0, 0), key, value, []))

    def go_on_from(self, _places: object) -> None:
        pass

    def to_the_end(self) -> Sequence[Message]:
        read, self._unread = self._unread, []
        return read


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    monkeypatch.setattr(hook_feed, "LogFollower", lambda *_: log)
    return log


def feed() -> HookFeed:
    return HookFeed(FeedTask(None, Path("key")))  # type: ignore[arg-type]


def why_it_waits(feed: HookFeed) -> str:
    with pytest.raises(Exception) as raised:
        feed.look()
    found = judge(f"Traceback (most recent call last):\n{raised.type.__name__}: {raised.value}")
    assert found.waits
    return found.reason


def seen(feed: HookFeed) -> list[Hook]:
    return list(feed.look().all())


def test_all_waits_for_a_hook_that_cannot_be_read_and_goes_on_when_it_can(log: Log) -> None:
    its = feed()
    log.write(b"alarms", record(HOOK))
    assert seen(its) == [HOOK]
    log.write(b"alarms", NEWER)
    for _ in range(2):
        assert why_it_waits(its).startswith("the hook alarms cannot be read: colour: ")
    log.write(b"alarms", record(HOOK))
    assert seen(its) == [HOOK]


@pytest.mark.parametrize("key", [b"alarms", status_key("alarms")])
def test_whoever_deletes_a_hook_that_cannot_be_read_lets_the_others_go_on(
    log: Log, key: bytes
) -> None:
    its = feed()
    log.write(b"alarms", record(HOOK))
    log.write(key, NEWER)
    assert why_it_waits(its)
    log.write(b"alarms", None)
    log.write(status_key("alarms"), None)
    assert seen(its) == []


def test_what_the_job_says_anew_of_a_hook_takes_the_place_of_what_cannot_be_read(log: Log) -> None:
    its = feed()
    log.write(b"alarms", record(HOOK))
    log.write(status_key("alarms"), b'{"state": "asleep"}')
    assert why_it_waits(its)
    said = Status(state="paused", why="status 500", at_ms=1, revision=1)
    log.write(status_key("alarms"), status_record(said))
    assert seen(its) == [HOOK]
