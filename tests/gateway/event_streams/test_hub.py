"""What becomes of streams whose reader takes nothing."""

import asyncio
from collections.abc import Callable

import pytest

from gateway.event_streams.event_stream import BYTES_AT_ONCE
from gateway.event_streams.log_position import LogPosition, Scope
from gateway.event_streams.wanted_events import Start
from shared.settings import GatewaySettings
from tests.gateway.event_streams.played import LAYOUT, PlayedHub

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
