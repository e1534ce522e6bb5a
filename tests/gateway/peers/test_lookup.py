"""How a program beside a gateway, such as the desk, finds states that others hold."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from gateway.peers.lookup import Lookup
from gateway.state_view.holders import ranked
from shared.errors import StaleMasterDataError
from shared.settings import GatewaySettings, JobSettings, Settings
from shared.settings.peers import PEER_TOKEN
from shared.timestamps import now_ms
from tests.gateway.peers.test_states import KEYS, TOPIC, URLS, Peers, _owner, _part

OWN = URLS[0]
Find = Callable[..., str | None]
_Client = httpx.Client


@pytest.fixture
def peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Peers:
    found = Peers(tmp_path)

    def answer(request: httpx.Request) -> httpx.Response:
        async def answered() -> httpx.Response:
            its = await found.answer(request)
            return httpx.Response(its.status_code, content=await its.aread())

        return asyncio.run(answered())

    def client(**options: Any) -> httpx.Client:
        del options["verify"], options["trust_env"]
        return _Client(**options, transport=httpx.MockTransport(answer))

    monkeypatch.setattr("gateway.peers.lookup.httpx.Client", client)
    for key in KEYS:
        found.hold(_owner(key), _part(key))
    return found


@pytest.fixture
def find(peers: Peers) -> Find:
    def asked(key: str, settings: Settings | None = None) -> str | None:
        states = Lookup(settings or peers.settings[OWN])
        try:
            value = states.find(TOPIC, key.encode())
        finally:
            states.close()
        return None if value is None else str(orjson.loads(value)["told by"])

    return asked


ELSEWHERE = next(key for key in KEYS if _owner(key) != OWN)


def test_each_state_is_found_wherever_it_is_held(peers: Peers, find: Find) -> None:
    assert {key: find(key) for key in KEYS} == {key: _owner(key) for key in KEYS}
    assert OWN not in peers.asked
    assert find("nobody") is None


def test_what_nobody_tells_is_not_told_as_nothing(peers: Peers, find: Find) -> None:
    peers.away = {*URLS}
    with pytest.raises(StaleMasterDataError, match="no gateway that holds this state"):
        find(ELSEWHERE)


def test_without_a_token_it_says_what_is_missing(peers: Peers, find: Find) -> None:
    folder = peers.settings[OWN].state_dir
    with pytest.raises(StaleMasterDataError, match="set HEADRACE_PEER_TOKEN, too"):
        find(ELSEWHERE, GatewaySettings(state_dir=folder))
    with pytest.raises(StaleMasterDataError, match="this program asks no gateways"):
        find(ELSEWHERE, JobSettings(state_dir=folder))
    (folder / PEER_TOKEN).write_text("secret\n")  # as a local stack leaves it
    assert find(ELSEWHERE, GatewaySettings(state_dir=folder)) == _owner(ELSEWHERE)


def test_an_old_copy_is_told_only_where_nobody_has_a_newer_one(peers: Peers, find: Find) -> None:
    part, owner = _part(ELSEWHERE), _owner(ELSEWHERE)
    newer = next(url for url in ranked(URLS, part) if url not in (OWN, owner))
    peers.stores[owner].caught_up([part], now_ms() - 60_000)
    assert find(ELSEWHERE) == owner
    peers.hold(newer, part)
    assert find(ELSEWHERE) == newer
