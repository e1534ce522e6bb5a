"""A state that is not held here is asked of those that hold it, one after the other."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from starlette.applications import Starlette

from gateway.http.problems import HANDLERS
from gateway.kafka_writer.partition_of_key import partition_of
from gateway.peers.divided import DividedStates
from gateway.peers.peer import Peer, Place
from gateway.peers.route import peer_routes
from gateway.peers.states import States
from gateway.state_view.division import DividedTopic, Division
from gateway.state_view.holders import ranked
from gateway.state_view.parts import part_of
from gateway.state_view.peer_protocol import HELD_PATH, KEYS_MAX, STATES_PATH, bearer
from gateway.state_view.reader import StateView
from gateway.state_view.records import Changes, Row
from gateway.state_view.store import ViewStore, view_path
from shared.flow import FLOW
from shared.settings import GatewaySettings
from shared.timestamps import now_ms

DEVICE, AREA = FLOW.entities[0], FLOW.aggregates[0]
TOPIC, PARTITIONS = DEVICE.topic, 4
URLS = [f"http://gateway-{number}" for number in (1, 2, 3)]
KEYS = [f"device-{number:04}" for number in range(40)]


class Peers:
    """Gateways, each with a view of its own that holds some parts; a request goes to the one of its
    host."""

    def __init__(self, folder: Path) -> None:
        self.settings = {
            url: GatewaySettings(
                state_dir=folder / url.rpartition("-")[2],
                state_copies=1,
                peer_url=url,
                peer_token="secret",  # type: ignore[arg-type]
            )
            for url in URLS
        }
        self.stores = {
            url: ViewStore(view_path(its.state_dir)) for url, its in self.settings.items()
        }
        self.views = {url: StateView(its.state_dir) for url, its in self.settings.items()}
        self.apps = {url: self._app(url) for url in URLS}
        self.asked: list[str] = []
        self.away: set[str] = set()
        self.hangs: set[str] = set()
        self.ends_one = False
        for store in self.stores.values():
            store.note_division(Division(tuple(URLS), {TOPIC: DividedTopic("id", PARTITIONS)}, ""))

    def hold(self, url: str, part: str, *, warm: bool = True) -> None:
        store = self.stores[url]
        store.begin_topic(part, "id")
        changes = Changes()
        for key in KEYS:
            if _part(key) == part:
                value = orjson.dumps({"told by": url, "_meta": {"version": 1}})
                changes.put(Row(part, key.encode(), value, 1, 5, 0, 7))
        store.apply(changes)
        if warm:
            store.caught_up([part], now_ms())

    def _app(self, url: str) -> Starlette:
        routes = peer_routes(self.settings[url], self.views[url])
        return Starlette(routes=routes, exception_handlers={**HANDLERS})  # type: ignore[dict-item]

    async def answer(self, request: httpx.Request) -> httpx.Response:
        url = f"{request.url.scheme}://{request.url.host}"
        self.asked.append(url)
        if url in self.away:
            raise httpx.ConnectError("refused")
        if self.ends_one:
            self.ends_one = False
            raise httpx.RemoteProtocolError("closed")
        if url in self.hangs:
            await asyncio.sleep(1.0)
            raise httpx.ReadTimeout("no answer")
        transport = httpx.ASGITransport(app=self.apps[url])
        return await transport.handle_async_request(request)

    def client(self, **options: Any) -> httpx.AsyncClient:
        """As a peer makes it, over no network."""
        del options["verify"], options["limits"], options["trust_env"]
        return _AsyncClient(**options, transport=httpx.MockTransport(self.answer))

    def ask(self, url: str, steps: Callable[[States], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            states = DividedStates(self.views[url], self.settings[url])
            try:
                return await steps(states)
            finally:
                await states.stop()

        return asyncio.run(run())


_AsyncClient = httpx.AsyncClient


@pytest.fixture
def peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Peers:
    found = Peers(tmp_path)
    monkeypatch.setattr("gateway.peers.peer.httpx.AsyncClient", found.client)
    for number in range(PARTITIONS):
        part = part_of(TOPIC, number)
        found.hold(ranked(URLS, part)[0], part)
    return found


def _part(key: str) -> str:
    return part_of(TOPIC, partition_of(key.encode(), PARTITIONS))


def _owner(key: str) -> str:
    return ranked(URLS, _part(key))[0]


def test_each_gateway_tells_each_state_and_asks_only_for_what_it_does_not_hold(
    peers: Peers,
) -> None:
    for url in URLS:
        peers.asked.clear()

        async def all_of_them(states: States) -> None:
            for key in KEYS:
                progress, found = await states.find(DEVICE, key)
                assert abs((progress.caught_up_ms or 0) - now_ms()) < 60_000
                assert found is not None
                assert orjson.loads(found.value)["told by"] == _owner(key)

        peers.ask(url, all_of_them)
        assert len(peers.asked) == sum(_owner(key) != url for key in KEYS)
        assert url not in peers.asked


def test_many_are_asked_of_each_gateway_at_once(peers: Peers) -> None:
    async def at_once(states: States) -> Any:
        return await states.find_all([(DEVICE, key) for key in KEYS])

    found = peers.ask(URLS[0], at_once)
    assert {key for _, key in found} == {*KEYS}
    assert all(told.found is not None for told in found.values())
    assert sorted(peers.asked) == sorted({_owner(key) for key in KEYS} - {URLS[0]})


def test_where_the_first_is_away_or_cold_the_next_one_is_asked(peers: Peers) -> None:
    key = next(key for key in KEYS if _owner(key) != URLS[0])
    part = _part(key)
    first, second = (url for url in ranked(URLS, part) if url != URLS[0])

    async def one(states: States) -> Any:
        progress, found = await states.find(DEVICE, key)
        return progress.warm, found and orjson.loads(found.value)["told by"]

    assert peers.ask(URLS[0], one) == (True, first)
    peers.away = {first}
    assert peers.ask(URLS[0], one) == (False, None), "nobody else has it"
    peers.hold(second, part, warm=False)
    assert peers.ask(URLS[0], one) == (False, None), "it has not read all of it"
    peers.hold(second, part)
    assert peers.ask(URLS[0], one) == (True, second)

    async def twice(states: States) -> None:
        await one(states)
        peers.asked.clear()
        await one(states)

    peers.ask(URLS[0], twice)
    assert peers.asked == [second], "who has just not answered is asked last"


def test_where_one_hangs_the_next_one_tells_all_who_asked_meanwhile(peers: Peers) -> None:
    key = next(key for key in KEYS if _owner(key) != URLS[0])
    first, second = (url for url in ranked(URLS, _part(key)) if url != URLS[0])
    peers.hold(second, _part(key))
    peers.hangs = {first}

    async def two(states: States) -> Any:
        async def later() -> Any:
            await asyncio.sleep(0.3)
            return await states.find(DEVICE, key)

        return await asyncio.gather(states.find(DEVICE, key), later())

    for told in peers.ask(URLS[0], two):
        assert told.found is not None
        assert orjson.loads(told.found.value)["told by"] == second


def test_who_waits_for_one_that_has_left_is_told_at_once(peers: Peers) -> None:
    place = Place(part_of(TOPIC, 0), KEYS[0].encode())
    peers.hangs = {URLS[1]}

    async def one() -> Any:
        peer = Peer(URLS[1], {}, peers.settings[URLS[0]].peer_tls())
        asks = asyncio.create_task(peer.ask([place], 60.0))
        await asyncio.sleep(0.1)
        await peer.close()
        return await asyncio.wait_for(asks, 5)

    assert asyncio.run(one()) == {}


def test_of_large_states_the_rest_is_asked_for_again(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.peers.route._ANSWER_BYTES_MAX", 100)

    async def at_once(states: States) -> Any:
        return await states.find_all([(DEVICE, key) for key in KEYS])

    found = peers.ask(URLS[0], at_once)
    assert len(found) == len(KEYS)
    assert all(told.found is not None for told in found.values())
    assert len(peers.asked) > 2


def test_a_connection_that_was_just_ended_is_no_silence(peers: Peers) -> None:
    key = next(key for key in KEYS if _owner(key) != URLS[0])
    peers.ends_one = True

    async def one(states: States) -> Any:
        return (await states.find(DEVICE, key)).found

    assert peers.ask(URLS[0], one) is not None
    assert peers.asked == [_owner(key)] * 2


def test_nothing_but_divided_states_is_told(peers: Peers) -> None:
    changes = Changes()
    changes.put(Row("credential.v1", b"key", b'{"secret": 1}', None, 5, 0, 7))
    for url in URLS:
        peers.stores[url].begin_topic("credential.v1", "id")
        peers.stores[url].apply(changes)
        peers.stores[url].caught_up(["credential.v1"], now_ms())

    async def told() -> Any:
        peer = Peer(URLS[1], bearer(peers.settings[URLS[1]]), peers.settings[URLS[0]].peer_tls())
        parts = Place("credential.v1", b"key"), Place(_part(KEYS[0]), b"nobody")
        peers.hold(URLS[1], _part(KEYS[0]))
        found = await peer.ask(parts, 5.0)
        await peer.close()
        return [*found]

    assert asyncio.run(told()) == [Place(_part(KEYS[0]), b"nobody")]


def test_a_copy_that_is_old_everywhere_is_asked_of_those_alone_that_should_hold_it(
    peers: Peers,
) -> None:
    key = KEYS[0]
    for url in URLS:
        peers.hold(url, _part(key))
        peers.stores[url].caught_up([_part(key)], now_ms() - 60_000)

    async def one(states: States) -> Any:
        return await states.find(DEVICE, key)

    told = peers.ask(URLS[0], one)
    assert told.progress.warm
    assert told.found is not None
    assert len(peers.asked) == 1


def test_who_is_unknown_is_told_as_unknown_and_aggregates_are_held_here(peers: Peers) -> None:
    peers.stores[URLS[0]].begin_topic(AREA.topic, "id")
    at_ms = now_ms()
    peers.stores[URLS[0]].caught_up([AREA.topic], at_ms)

    async def unknown(states: States) -> Any:
        return await states.find(DEVICE, "nobody"), await states.find(AREA, "nowhere")

    of_device, of_area = peers.ask(URLS[0], unknown)
    assert (of_device.progress.warm, of_device.found) == (True, None)
    assert (of_area.progress.caught_up_ms, of_area.found) == (at_ms, None)


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({}, b"{}", 401),
        ({"authorization": "Bearer wrong"}, b"{}", 401),
        ({"authorization": "Bearer secret"}, b"{}", 400),
        ({"authorization": "Bearer secret"}, b"\xff", 400),
        ({"authorization": "Bearer secret"}, b'{"keys": [1]}', 400),
        (
            {"authorization": "Bearer secret"},
            orjson.dumps({"keys": [["a", "b"]] * (KEYS_MAX + 1)}),
            400,
        ),
        ({"authorization": "Bearer secret"}, orjson.dumps({"keys": [["a", "b"]] * KEYS_MAX}), 200),
    ],
)
def test_only_who_knows_the_token_is_answered_and_only_what_can_be_read(
    peers: Peers, headers: dict[str, str], body: bytes, status: int
) -> None:
    async def ask() -> tuple[int, int]:
        transport = httpx.ASGITransport(app=peers.apps[URLS[0]])
        async with _AsyncClient(transport=transport, base_url=URLS[0]) as http:
            held = await http.get(HELD_PATH, headers=headers)
            return held.status_code, (
                await http.post(STATES_PATH, content=body, headers=headers)
            ).status_code

    assert asyncio.run(ask()) == (401 if status == 401 else 200, status)
