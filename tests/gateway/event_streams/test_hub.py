"""What becomes of streams whose reader takes nothing, or which end while there is much to say."""

import asyncio
import time
from collections.abc import Callable

import pytest

from gateway.event_streams.live_reader import LogChanged
from gateway.event_streams.wanted_events import Start
from gateway.streams.log_position import LogPosition, Scope
from gateway.streams.stream import BYTES_AT_ONCE
from shared.settings import GatewaySettings
from tests.gateway.event_streams.played import LAYOUT, PlayedHub

NOW = Start()
BEGIN = Start(Scope(LAYOUT, None).id_of(LogPosition([0] * len(LAYOUT.partitions))).decode())
HIGH_WATER = 64 * 1024


async def becomes(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def test_a_reader_that_takes_nothing_is_written_no_more_than_its_share(
    settings: GatewaySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        played = PlayedHub(settings, monkeypatch)
        written = played.log.write(100, note_chars=30_000)
        await becomes(lambda: played.log.given == 1)
        _, slow = played.open(BEGIN)
        await becomes(lambda: slow.flow.write_paused)
        await asyncio.sleep(0.05)
        assert slow.untaken_bytes < HIGH_WATER + BYTES_AT_ONCE + 31_000
        while len(slow.frames()) < 100:
            slow.take()
            await becomes(lambda: slow.flow.write_paused or len(slow.frames()) == 100)
            assert slow.untaken_bytes < HIGH_WATER + BYTES_AT_ONCE + 31_000
        assert [frame.data["id"] for frame in slow.frames()] == written
        await played.hub.stop()

    asyncio.run(run())


def test_a_stream_that_ends_in_a_round_has_all_that_its_last_word_says(
    settings: GatewaySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        played = PlayedHub(settings, monkeypatch)
        streams = [played.open(NOW) for _ in range(2)]
        await becomes(lambda: all(stream.channel is not None for stream, _ in streams))
        (_, first), (ending, second) = streams
        loop = asyncio.get_running_loop()

        def end_the_other() -> None:
            """Before its turn: this write takes all the time that the round has."""
            first.on_write = lambda: None
            time.sleep(0.002)
            loop.call_soon(played.hub.end, ending, "unauthenticated")

        first.on_write = end_the_other
        (only,) = played.log.write(1)
        await becomes(lambda: second.is_closed)
        event, end = second.frames()
        assert (event.data["id"], end.event) == (only, "end")
        assert event.id == end.id == end.data["last_event_id"]
        await played.hub.stop()

    asyncio.run(run())


def test_who_is_slow_when_all_streams_end_is_closed_once_it_has_taken_all(
    settings: GatewaySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        played = PlayedHub(settings, monkeypatch)
        stream, slow = played.open(NOW)
        await becomes(lambda: stream.channel is not None)
        slow.flow.pause_writing()
        played.log.tell(LogChanged("there are other partitions"))
        await becomes(lambda: bool(played.over))
        await played.hub.stop()
        assert not slow.is_closed
        slow.take()
        await becomes(lambda: slow.is_closed)
        (end,) = slow.frames()
        assert end.data["reason"] == "log_changed"

    asyncio.run(run())
