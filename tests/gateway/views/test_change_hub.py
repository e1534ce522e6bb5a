"""What becomes of streams of changes whose reader takes nothing, or only a little."""

import asyncio
from collections.abc import Callable

import pytest

from gateway.auth.authenticate import NoAuthentication
from gateway.http.message import Request
from gateway.state_view.reader import StateView
from gateway.state_view.store import ViewStore
from gateway.views.change_hub import ChangeHub
from gateway.views.change_stream import ChangeStream, WantedRows
from gateway.views.selection import selection_of
from shared.settings import GatewaySettings
from tests.gateway.event_streams.played import PlayedConnection
from tests.gateway.views.support import HOT, Rows
from tests.stream_jobs.views_flow import FLOW

VIEW = FLOW.view("hot")
assert VIEW is not None
WANTED = WantedRows(VIEW, selection_of(VIEW, {}))


async def becomes(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.fixture
def rows(store: ViewStore) -> Rows:
    return Rows(store)


def opened(hub: ChangeHub) -> tuple[ChangeStream, PlayedConnection]:
    connection = PlayedConnection()
    request = Request("GET", b"/views/hot", [], {}, "127.0.0.1", None)
    stream = ChangeStream(lambda _: None, request, connection)  # type: ignore[arg-type]
    stream.wanted, stream.after = WANTED, ""
    hub.add(stream)
    return stream, connection


def hub_of(settings: GatewaySettings, stall_s: float = 60) -> ChangeHub:
    patient = settings.model_copy(update={"body_pause_max_s": 2 * stall_s})
    return ChangeHub(patient, NoAuthentication(), StateView(settings.state_dir), lambda _: None)


def test_who_takes_little_gets_of_each_row_the_last(settings: GatewaySettings, rows: Rows) -> None:
    async def run() -> None:
        hub = hub_of(settings)
        (stream, slow), (at_the_end, quick) = opened(hub), opened(hub)
        await becomes(lambda: stream.channel and at_the_end.channel)
        for version in range(1, 8):
            rows.put(HOT, {"event_id": "a"}, version=version, note="x" * 80_000)
            await becomes(lambda version=version: len(quick.frames()) == version)
            quick.take()
        assert stream.channel is None
        slow.take()
        await becomes(lambda: len(slow.frames()) == 2)
        slow.take()
        await becomes(lambda: stream.channel)
        assert [frame.data["_meta"]["version"] for frame in slow.frames()] == [1, 7]
        assert slow.frames()[-1].id == quick.frames()[-1].id
        await hub.stop()

    asyncio.run(run())


def test_who_takes_nothing_is_cut_with_a_last_word(settings: GatewaySettings, rows: Rows) -> None:
    async def run() -> None:
        hub = hub_of(settings, stall_s=0.1)
        stream, slow = opened(hub)
        await becomes(lambda: stream.channel)
        rows.put(HOT, {"event_id": "a"}, note="x" * 80_000)
        await becomes(lambda: stream.is_over)
        row, end = slow.frames()
        assert (end.event, end.data["reason"], end.id) == ("end", "slow", row.id)
        await hub.stop()

    asyncio.run(run())


def test_a_large_view_is_written_a_share_at_a_time(settings: GatewaySettings, rows: Rows) -> None:
    async def run() -> None:
        for number in range(60):
            rows.put(HOT, {"event_id": f"{number}"}, note="x" * 30_000)
        hub = hub_of(settings)
        _, slow = opened(hub)
        await becomes(lambda: slow.flow.write_paused)
        await asyncio.sleep(0.05)
        assert slow.untaken_bytes < 400_000
        while len(slow.frames()) < 60:
            slow.take()
            await becomes(lambda: slow.flow.write_paused or len(slow.frames()) == 60)
        assert len({frame.data["event_id"] for frame in slow.frames()}) == 60
        await hub.stop()

    asyncio.run(run())
