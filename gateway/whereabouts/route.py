"""GET /events/{id}: whoever may read an entity is told what became of what it has sent."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

import orjson
import psycopg
from fastapi import Path, Query, Request
from fastapi.routing import APIRoute
from pydantic import WithJsonSchema
from starlette.responses import Response
from starlette.routing import BaseRoute

from clients.postgres import store
from clients.postgres.store import Connection, answered_within, judged_errors
from gateway.auth.asgi_guard import CALLER
from gateway.auth.caller import ANYONE, Caller
from gateway.history.store import HistoryStore
from gateway.http.problems import Problem, retry_after
from gateway.peers.states import WITHIN_S, States
from gateway.spool.spool import Spool
from gateway.state_view.reader import StateView
from gateway.whereabouts.cached import Kept
from gateway.whereabouts.facts import Facts, Spooled
from gateway.whereabouts.finder import Asker, BadPlaceError, Finder, SnapshotOf
from gateway.whereabouts.log_clients import LogClients
from gateway.whereabouts.openapi import ID, PLACE, RESPONSES
from gateway.whereabouts.stages import told
from shared.consumer_groups import VIEW
from shared.errors import JobError
from shared.flow_table import Flow
from shared.ids import tenant_of
from shared.kafka_access import KafkaAwayError
from shared.settings import GatewaySettings

log = logging.getLogger(__name__)

_SLOW_AFTER_S = 2.0
_AT_ONCE_MAX = 4
_SPOOL_BYTES_MAX = 16 * 1024 * 1024
_Id = Annotated[str, Path(json_schema_extra=ID)]
_Place = Annotated[
    str | None,
    WithJsonSchema(PLACE),
    Query(description="topic/partition/offset of the receipt: finds the payload for certain"),
]


class _Servers(NamedTuple):
    """What a question asks, kept for the next one."""

    store: Connection
    log: LogClients

    def is_well(self) -> bool:
        try:
            with answered_within(self.store, _SLOW_AFTER_S), judged_errors():
                self.store.execute("SELECT 1")
        except (JobError, psycopg.Error):
            return False
        return True

    def close(self) -> None:
        self.store.close()
        self.log.close()


class Events:
    def __init__(
        self, settings: GatewaySettings, flow: Flow, spool: Spool | None, states: States
    ) -> None:
        self._url = settings.postgres_url.get_secret_value()
        self._questions = HistoryStore(self._url, "what became of payloads")
        self._settings, self._flow, self._spool = settings, flow, spool
        self._states = states
        self._rows = {row.topic: row for row in flow.with_state}
        self._asking: Counter[Caller] = Counter()
        self._servers = Kept(self._connected, _Servers.is_well)

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        await asyncio.to_thread(self._servers.close)

    async def tell(self, event_id: str, place: str | None, caller: Caller) -> dict[str, Any]:
        asker, loop = asker_of(caller), asyncio.get_running_loop()
        with self._one_of(caller):
            facts = await self._questions.work(lambda: self._find(event_id, place, asker, loop))
        if not facts.is_known:
            raise Problem(404, "unknown_event", told(facts)["why"])
        return told(facts)

    @contextmanager
    def _one_of(self, caller: Caller) -> Iterator[None]:
        """Nobody takes the places of all others."""
        if self._asking[caller] >= _AT_ONCE_MAX and caller != ANYONE:
            raise Problem(
                429,
                "too_many_questions",
                f"a caller asks {_AT_ONCE_MAX} such questions at once; wait for an answer",
                headers=retry_after(1),
            )
        self._asking[caller] += 1
        try:
            yield
        finally:
            self._asking[caller] -= 1
            if not self._asking[caller]:
                del self._asking[caller]

    def _find(
        self, event_id: str, place: str | None, asker: Asker, loop: asyncio.AbstractEventLoop
    ) -> Facts:
        spooled = self._spooled(event_id, asker)
        if spooled is not None:
            return Facts(event_id, None, spooled=spooled)
        # a view of its own: SQLite's connections are their threads'
        view = StateView(self._settings.state_dir)
        try:
            with self._servers.one() as servers:
                finder = Finder(self._flow, servers.log, self._snapshots(view, loop))
                try:
                    return finder.find(servers.store, event_id, place, asker)
                except BadPlaceError as error:  # of which the servers know nothing
                    unknown = Problem(404, "unknown_event", str(error))
            raise unknown
        except KafkaAwayError as error:
            log.warning("what became of a payload cannot be read: %s", error)
            raise _away("Kafka, which has the payloads and their events,") from None
        except (JobError, psycopg.Error) as error:
            log.warning("what became of a payload cannot be read from PostgreSQL: %s", error)
            raise _away("PostgreSQL, which has the rows,") from None
        finally:
            view.close()

    def _snapshots(self, view: StateView, loop: asyncio.AbstractEventLoop) -> SnapshotOf:
        def find(topic: str, key: bytes) -> bytes | None:
            of = self._rows[topic]
            if self._states.is_divided(of):
                asked = asyncio.run_coroutine_threadsafe(self._states.find(of, key.decode()), loop)
                progress, found = asked.result(2 * WITHIN_S)
                if not progress.warm:
                    raise _away(f"the gateway that holds this {of.name}")
            else:
                found = view.find(topic, key)[1]
            return None if found is None else found.value

        return find

    def _connected(self) -> _Servers:
        connection = store.connect(self._url, "events", _SLOW_AFTER_S)
        return _Servers(connection, LogClients(self._settings.kafka, VIEW))

    def _spooled(self, event_id: str, asker: Asker) -> Spooled | None:
        if self._spool is None or self._spool.is_empty():
            return None
        for frame in self._spool.find(event_id, _SPOOL_BYTES_MAX):
            key = frame.record.key.decode(errors="backslashreplace")
            if asker.sees(key):
                its = frame.topic, asker.named(key), len(frame.record.value)
                return Spooled(*its, frame.spooled_ms)
        return None


def asker_of(caller: Caller) -> Asker:
    def named(full_id: str) -> str:
        if not caller.may_see(full_id):
            return ""
        its = tenant_of(full_id)
        return full_id.removeprefix(f"{its}/") if its and not caller.all_tenants else full_id

    return Asker(caller.may_see, named, knows_hooks=caller.may_operate)


def event_routes(events: Events) -> list[BaseRoute]:
    async def event(event_id: _Id, request: Request, place: _Place = None) -> Response:
        caller: Caller = request.scope.get(CALLER, ANYONE)
        body = await events.tell(event_id, place, caller)
        return Response(orjson.dumps(body, default=str), media_type="application/json")

    said: dict[str, Any] = {"methods": ["GET"], "responses": RESPONSES, "response_model": None}
    return [APIRoute("/events/{event_id:path}", event, **said)]


def _away(who: str) -> Problem:
    return Problem(
        503, "store_away", f"{who} does not answer now; ask again", headers=retry_after(2)
    )
