"""Another gateway, asked for the states that it holds: by one request at a time, for all who want
any meanwhile."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from ssl import SSLContext
from typing import NamedTuple

import httpx
import orjson

from gateway.peers.states import Told
from gateway.state_view.peer_protocol import KEYS_MAX, NO_ANSWER, STATES_PATH, read
from shared.timestamps import now_ms

log = logging.getLogger(__name__)

_ANSWER_S = 1.0
_SILENT_FOR_S = 2.0
_POOL = httpx.Limits(max_connections=2, keepalive_expiry=2.0)
# it has just ended a connection that was kept
_ENDED = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)


class Place(NamedTuple):
    """Where a state stands in the view of who holds it."""

    part: str
    key: bytes


_Asking = asyncio.Future[Told | None]


class Peer:
    def __init__(self, url: str, headers: Mapping[str, str], tls: SSLContext) -> None:
        self._url = url
        self._http = httpx.AsyncClient(
            headers=headers,
            timeout=_ANSWER_S,
            limits=_POOL,
            verify=tls,
            trust_env=False,
        )
        self._wanted: dict[Place, list[_Asking]] = {}
        self._asks: asyncio.Task[None] | None = None
        self._silent_until_s = 0.0

    async def close(self) -> None:
        if self._asks is not None:
            self._asks.cancel()
            await asyncio.wait((self._asks,))
        self._give_up()
        await self._http.aclose()

    @property
    def is_silent(self) -> bool:
        """It has just not answered."""
        return time.monotonic() < self._silent_until_s

    async def ask(self, places: Iterable[Place], within_s: float) -> dict[Place, Told]:
        """What it tells of those states that it holds: of none where it does not answer in time."""
        if self.is_silent:
            return {}
        loop = asyncio.get_running_loop()
        its = {place: loop.create_future() for place in places}
        for place, future in its.items():
            self._wanted.setdefault(place, []).append(future)
        if self._asks is None or self._asks.done():
            self._asks = loop.create_task(self._ask_for_all())
        answered, _ = await asyncio.wait(its.values(), timeout=within_s)
        return {
            place: told
            for place, future in its.items()
            if future in answered and (told := future.result()) is not None
        }

    async def _ask_for_all(self) -> None:
        while self._wanted:
            asked = {place: self._wanted.pop(place) for place in [*self._wanted][:KEYS_MAX]}
            answers: list[Told | None] = []
            try:
                answers = await self._request([*asked])
            except (httpx.HTTPError, httpx.InvalidURL, *NO_ANSWER) as error:
                log.info("%s does not tell the states it holds: %s", self._url, error)
                self._silent_until_s = time.monotonic() + _SILENT_FOR_S
            finally:
                # of large states it tells fewer at once
                for place, told in zip([*asked], answers, strict=False):
                    _tell(asked.pop(place), told)
                again = {
                    place: [*its, *self._wanted.pop(place, ())] for place, its in asked.items()
                }
                self._wanted = again | self._wanted
            if not answers:
                self._give_up()

    def _give_up(self) -> None:
        for futures in self._wanted.values():
            _tell(futures, None)
        self._wanted = {}

    async def _request(self, places: list[Place]) -> list[Told | None]:
        asked = {"keys": [(place.part, place.key.decode()) for place in places]}
        content = orjson.dumps(asked)
        try:
            answer = await self._http.post(f"{self._url}{STATES_PATH}", content=content)
        except _ENDED:
            answer = await self._http.post(f"{self._url}{STATES_PATH}", content=content)
        told = orjson.loads(answer.raise_for_status().content)["states"]
        at_ms = now_ms()
        return [None if one is None else Told(*read(one, at_ms)) for one in told]


def _tell(futures: Iterable[_Asking], told: Told | None) -> None:
    for future in futures:
        if not future.done():  # who has asked may have gone
            future.set_result(told)
