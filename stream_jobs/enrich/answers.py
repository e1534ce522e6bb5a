"""What services say, to the enrichments of one process: all keys of a batch are asked at once.

Which keys these are only the enrichment knows. So it is called ahead, with what is known, and what
it makes is thrown away: a key that it asks for in vain is one to ask."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from threading import Thread
from typing import Any

from clients.kafka.records import Payload
from shared.events import envelope
from shared.flow_table import Flow
from shared.lookups import HttpLookup
from shared.lookups.registry import UNSET
from shared.model import MasterRows, NotYet, Rejected
from stream_jobs.enrich.enrich_payload import Enrich
from stream_jobs.enrich.known import Answer
from stream_jobs.enrich.service import Service
from stream_jobs.enrich.service_request import client

# an enrichment may ask by what it was answered. What it asks after that is asked one by one
_ROUNDS_MAX = 8


class Answers:
    def __init__(
        self,
        flow: Flow,
        registry: HttpLookup | None = None,
        *,
        probes_aside: bool = False,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint_of = flow.endpoint_of
        self._services = {
            lookup.name: Service(lookup, probes_aside=probes_aside, clock_s=clock_s)
            for lookup in (*flow.lookups, *([registry] if registry else []))
        }
        self.are_asked_for = bool(flow.lookups) or flow.asks_registry
        self._wanted: dict[str, dict[str, None]] | None = None  # where it is called ahead
        self._in_vain = 0  # how often it was asked for what is wanted
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._http: Any = None

    def find(self, name: str, key: str) -> Answer:
        """NotYet where the service gives none now."""
        service = self._services.get(name)
        if service is None:
            raise NotYet(UNSET, away=True)
        try:
            service.lookup.url_of(key)
        except ValueError as error:
            raise Rejected("bad_key", f"{name} cannot be asked: {error}") from error
        if not service.is_asked(key):
            if self._wanted is not None:
                self._wanted[name][key] = None
                self._in_vain += 1
                raise NotYet(f"{name} is about to be asked")
            self._ask({name: [key]})
        return service.answer(key)

    def look_ahead(self, enrich: Enrich, payloads: Collection[Payload], master: MasterRows) -> None:
        """Begins a batch, and asks for all that its payloads will ask for."""
        if not self.are_asked_for:
            return
        for service in self._services.values():
            service.begin()
        asking = [payload for payload in payloads if self._asks(payload)]
        for _ in range(_ROUNDS_MAX):
            self._wanted = defaultdict(dict)
            try:
                asking = [one for one in asking if self._is_in_want(enrich, one, master)]
                wanted = {name: list(keys) for name, keys in self._wanted.items()}
            finally:
                self._wanted = None
            if not wanted:
                return
            self._ask(wanted)

    def _asks(self, payload: Payload) -> bool:
        kind = envelope.text(payload.headers, envelope.TYPE)
        endpoint = self._endpoint_of(payload.position.topic, kind)
        return endpoint is not None and endpoint.asks

    def _is_in_want(self, enrich: Enrich, payload: Payload, master: MasterRows) -> bool:
        before = self._in_vain
        enrich(payload, master)
        return self._in_vain > before

    def _ask(self, wanted: Mapping[str, list[str]]) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = Thread(target=self._loop.run_forever, name="look-ups", daemon=True)
            self._thread.start()
        asyncio.run_coroutine_threadsafe(self._ask_all(wanted), self._loop).result()

    async def _ask_all(self, wanted: Mapping[str, list[str]]) -> None:
        if self._http is None:
            self._http = client()
        asked = (self._services[name].ask(self._http, keys) for name, keys in wanted.items())
        await asyncio.gather(*asked)

    def close(self) -> None:
        if self._loop is None or self._thread is None:
            return
        if self._http is not None:
            asyncio.run_coroutine_threadsafe(self._http.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = self._http = None
