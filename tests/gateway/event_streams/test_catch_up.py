"""How much of the old log a stream is given at once, and for how long it has a turn."""

import asyncio
from collections import deque
from collections.abc import Sequence

import pytest

from gateway.event_streams import catch_up
from gateway.event_streams.catch_up import CatchUp, OldReader
from gateway.event_streams.recent_events import RecentEvents
from gateway.streams.log_position import LogPosition, Scope
from gateway.streams.stream import BYTES_AT_ONCE
from shared.events.event_reader import EventReader
from shared.flow import FLOW
from shared.settings import GatewaySettings
from tests.gateway.event_streams.played import (
    LAYOUT,
    PLACE,
    PlayedConnection,
    entries,
    stream_on,
)
from tests.stream_jobs import messages

SCOPE = Scope(LAYOUT, None)
EVENTS = EventReader.of(FLOW)


class Message(messages.Message):
    def error(self) -> None:
        return None


class PlayedConsumer:
    """Of a log that is given, or else has no end."""

    def __init__(self, *its: Message) -> None:
        self._left = deque(its)
        self.asked = 0

    def assign(self, partitions: Sequence[object]) -> None: ...

    def consume(self, number: int, _: float) -> list[Message]:
        self.asked += 1
        if not self._left:
            return []
        return [self._left.popleft() for _ in range(min(number, len(self._left)))]

    def unassign(self) -> None: ...

    def close(self) -> None: ...


class EndlessConsumer(PlayedConsumer):
    def consume(self, number: int, _: float) -> list[Message]:
        self.asked += 1
        return log(self.asked * number, number)


def log(begin: int, number: int, note_chars: int = 10) -> list[Message]:
    return [
        Message(entry.position, entry.key, entry.value, None)
        for entry in entries(begin, number, note_chars)
    ]


def begin() -> LogPosition:
    return LogPosition([0] * len(LAYOUT.partitions))


def test_large_events_are_given_a_few_at_once_and_none_is_left_out(
    settings: GatewaySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = PlayedConsumer(*log(0, 60, 30_000))
    monkeypatch.setattr(catch_up, "reader", lambda *_: played)
    old, position, found = OldReader(settings.kafka, EVENTS), begin(), b""
    wanted = stream_on(PlayedConnection()).wanted
    while position.offsets[PLACE] < 60:
        given = old.read(LAYOUT, SCOPE, wanted, position)
        assert 0 < len(given.raw) < BYTES_AT_ONCE + 31_000
        position = given.position
        found += given.raw
    ids = [line for line in found.splitlines() if line.startswith(b"data")]
    assert [f'"id":"event-{n}"'.encode() in line for n, line in enumerate(ids)] == [True] * 60
    assert played.asked == 1


def test_what_was_left_of_a_turn_is_not_given_to_the_next_stream(
    settings: GatewaySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = PlayedConsumer(*log(0, 60, 30_000))
    monkeypatch.setattr(catch_up, "reader", lambda *_: played)
    old, wanted = OldReader(settings.kafka, EVENTS), stream_on(PlayedConnection()).wanted
    assert old.read(LAYOUT, SCOPE, wanted, begin()).raw
    old.end()
    assert not old.read(LAYOUT, SCOPE, wanted, begin()).raw


def test_a_turn_is_over_in_time_where_nothing_is_found(
    settings: GatewaySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catch_up, "reader", lambda *_: EndlessConsumer())
    monkeypatch.setattr(catch_up, "_TURN_S", 0.05)

    async def run() -> None:
        turns = CatchUp(settings.kafka, EVENTS)
        never = RecentEvents([1 << 40] * len(LAYOUT.partitions), 0)
        connections = [PlayedConnection() for _ in range(6)]  # for each reader, three
        streams = [stream_on(one, "nobody") for one in connections]
        for stream in streams:
            stream.scope, stream.position = SCOPE, begin()
        async with asyncio.timeout(10):
            await asyncio.gather(*(turns.turn(stream, LAYOUT, never) for stream in streams))
        assert any(stream.position.offsets[PLACE] for stream in streams if stream.position)
        assert not any(one.raw for one in connections)
        turns.close()

    asyncio.run(run())
