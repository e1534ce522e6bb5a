"""GET /state/{id}/history and /state/{id}/why, and what /state says of a version or time."""

from collections.abc import Collection, Sequence
from typing import Annotated, Any

import orjson
from fastapi import Path, Query, Request
from fastapi.routing import APIRoute
from pydantic import WithJsonSchema
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from gateway.auth.asgi_guard import CALLER
from gateway.auth.caller import ANYONE, Caller
from gateway.history import causes, versions
from gateway.history.openapi import content
from gateway.history.store import HistoryStore
from gateway.history.stored_events import LIMIT_MAX, Kept, TooManyEvents
from gateway.history.versions import PLACE, Known
from gateway.http.problems import Problem
from gateway.peers.states import States
from gateway.state.warming import refuse_while_warming
from shared.events.envelope import EventRecord
from shared.events.event_reader import EventReader
from shared.flow_table import Flow
from shared.folding import snapshot
from shared.folding.applier import Applier
from shared.folding.snapshot import Snapshot
from shared.ids import ENTITY_ID, TENANT
from shared.model import Aggregate, Entity, Fields
from shared.timestamps import from_rfc3339, is_time_ms, now_ms

_ANSWERS: dict[int | str, dict[str, Any]] = {
    401: {"description": "The gateway wants to know who is asking, and this is nobody it knows."},
    503: {"description": "PostgreSQL does not answer, or what is asked for is not stored yet."},
}
_HISTORY_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Versions as they were published, the newest first, with their changes.",
        "content": content("History"),
    },
    404: {"description": "No such entity, none that this caller may read, or no history is kept."},
    **_ANSWERS,
}
_WHY_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Of each field of the state the event that gave it its value.",
        "content": content("Causes"),
    },
    404: {"description": "Unknown entity or id, or none that this caller may read."},
    422: {"description": "More events than one question may fold."},
    **_ANSWERS,
}
_Id = Annotated[str, Path(json_schema_extra={"pattern": f"^{ENTITY_ID.pattern}$"})]
_Tenant = Annotated[str | None, Query(json_schema_extra={"pattern": f"^({TENANT.pattern})?$"})]
_Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
# said, not checked: a control character is refused in any URL
_Field = Annotated[
    str | None, WithJsonSchema({"type": "string", "pattern": r"^[^\x00-\x1f\x7f]*$"})
]
_Place = Annotated[str | None, WithJsonSchema({"type": "string", "pattern": f"^{PLACE}$"})]


class History:
    def __init__(
        self, flow: Flow, states: States, store: HistoryStore, why_events_max: int
    ) -> None:
        types = {row.name: row for row in flow.event_types}
        self._appliers = {
            # no id comes twice from PostgreSQL, so none need be remembered
            row.name: Applier(row, 0, types, flow.actions_of(row.name))
            for row in flow.entities
        }
        self._events = EventReader.of(flow)
        self._ingest_topics = flow.ingest_topics
        self._states = states
        self._store = store
        self._why_events_max = why_events_max

    async def state(
        self, of: Entity | Aggregate, key: str | None, version: int | None, at: str | None
    ) -> Fields:
        """As it was in that version, or at that time. `key`: None for who may not see it."""
        if version is not None and at is not None:
            raise Problem(400, "bad_parameter", "ask for a version or for a time, not for both")
        at_ms = None if at is None else _time(at)
        full_id = _kept_key(of, key)
        known = await self._known(of, full_id)
        if at_ms is None:
            wanted = version or 0
            around = await self._store.ask(
                lambda on: Kept(on, of.name, full_id).around_version(wanted)
            )
            found = versions.of_version(of, wanted, around, known)
        else:
            around = await self._store.ask(lambda on: Kept(on, of.name, full_id).around_time(at_ms))
            found = versions.at_time(of, at_ms, around, known)
        return versions.told(of, full_id, found, around.then)

    async def page(
        self,
        of: Entity | Aggregate,
        key: str | None,
        limit: int,
        after: str | None,
        field: str | None,
    ) -> Fields:
        place, full_id = versions.read_place(after), _kept_key(of, key)
        page = await self._store.ask(
            lambda on: Kept(on, of.name, full_id).page(place, limit, field)
        )
        if page.has_none:
            raise _unknown(of)
        return {"versions": page.entries, "next": page.goes_on_after}

    async def why(self, of: Entity | Aggregate, key: str | None) -> Fields:
        if isinstance(of, Aggregate):
            raise Problem(
                404,
                "no_events",
                f"{of.name} is added up from the states of {of.members}: ask for the /why of one",
            )
        progress, shown = await self._states.find(of, key or "")
        refuse_while_warming(of, progress)
        if key is None or shown is None:
            raise _unknown(of)
        now = snapshot.decode(shown.value)
        if now.deleted:
            raise Problem(404, "deleted", f"this {of.name} was deleted")
        full_id = _readable(of, key)
        try:
            fields = await self._store.ask_and(
                lambda on: Kept(on, of.name, full_id).events(of.reads, self._why_events_max),
                lambda events: self._causes(of, full_id, now, events),
            )
        except TooManyEvents:
            raise Problem(
                422,
                "too_many_events",
                f"this {of.name} has more events than HEADRACE_WHY_EVENTS_MAX, "
                f"{self._why_events_max}, allows to fold for one answer; its /history?field=NAME "
                "says when a field changed, where a history is kept",
            ) from None
        return {"version": now.version, "fields": fields}

    def _causes(
        self, of: Entity, full_id: str, now: Snapshot, events: Sequence[EventRecord]
    ) -> dict[str, Fields]:
        in_it = causes.as_folded(events, self._events, now.positions)
        folded = causes.fold(self._appliers[of.name], full_id, in_it)
        return causes.told_causes(now.state, folded, self._ingest_topics)

    async def _known(self, of: Entity | Aggregate, full_id: str) -> Known:
        progress, found = await self._states.find(of, full_id)
        caught_up_ms = refuse_while_warming(of, progress)
        if found is None:
            return Known(None, caught_up_ms)
        return Known(snapshot.read_facts(found.value).version, caught_up_ms)


class _NotOfEntity(APIRoute):
    """/state/{entity}/{id} has the same form where an id is called `history` or `why`."""

    def __init__(self, *args: Any, names: Collection[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self._names = names

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        if match != Match.NONE and child["path_params"]["entity_id"] in self._names:
            return Match.NONE, {}
        return match, child


def history_routes(flow: Flow, history: History) -> list[BaseRoute]:
    names = [row.name for row in flow.with_state]

    def find(entity: str) -> Entity | Aggregate:
        found = flow.find_with_state(entity)
        if found is None:
            known = ", ".join(names)
            raise Problem(404, "unknown_entity", f"no such entity; there are: {known}")
        return found

    async def versions_answer(
        of: Entity | Aggregate,
        entity_id: str,
        request: Request,
        tenant: str | None,
        limit: int,
        after: str | None,
        field: str | None,
    ) -> Response:
        key = _key(of, entity_id, request, tenant)
        return _answer(of, entity_id, await history.page(of, key, limit, after, field))

    async def history_of_first(
        entity_id: _Id,
        request: Request,
        limit: _Limit = 100,
        next: _Place = None,  # noqa: A002 - the parameter's name
        field: _Field = None,
        tenant: _Tenant = None,
    ) -> Response:
        of = flow.with_state[0]
        return await versions_answer(of, entity_id, request, tenant, limit, next, field)

    async def history_of(
        entity: Annotated[str, Path(json_schema_extra={"enum": names})],
        entity_id: _Id,
        request: Request,
        limit: _Limit = 100,
        next: _Place = None,  # noqa: A002
        field: _Field = None,
        tenant: _Tenant = None,
    ) -> Response:
        of = find(entity)
        return await versions_answer(of, entity_id, request, tenant, limit, next, field)

    async def why_first(entity_id: _Id, request: Request, tenant: _Tenant = None) -> Response:
        of = flow.with_state[0]
        key = _key(of, entity_id, request, tenant)
        return _answer(of, entity_id, await history.why(of, key))

    async def why(
        entity: Annotated[str, Path(json_schema_extra={"enum": names})],
        entity_id: _Id,
        request: Request,
        tenant: _Tenant = None,
    ) -> Response:
        of = find(entity)
        key = _key(of, entity_id, request, tenant)
        return _answer(of, entity_id, await history.why(of, key))

    if not flow.with_state:
        return []

    def route(what: str, of_first: Any, of_any: Any, answers: Any) -> list[BaseRoute]:
        said = {"methods": ["GET"], "responses": answers, "response_model": None}
        return [
            _NotOfEntity(f"/state/{{entity_id}}/{what}", of_first, names=names, **said),
            APIRoute(f"/state/{{entity}}/{{entity_id}}/{what}", of_any, **said),
        ]

    return [
        *route("history", history_of_first, history_of, _HISTORY_ANSWERS),
        *route("why", why_first, why, _WHY_ANSWERS),
    ]


def _key(
    of: Entity | Aggregate, entity_id: str, request: Request, tenant: str | None
) -> str | None:
    caller: Caller = request.scope.get(CALLER, ANYONE)
    return caller.full_id_to_read(of, entity_id, tenant)


def _kept_key(of: Entity | Aggregate, key: str | None) -> str:
    if not of.history:
        raise Problem(
            404,
            "no_history",
            f"no history of {of.name} is kept: `history=True` in its row of the flow begins one",
        )
    return _readable(of, key)


def _readable(of: Entity | Aggregate, key: str | None) -> str:
    """PostgreSQL takes no NUL: with one, it is the id of nobody."""
    if key is None or "\0" in key:
        raise _unknown(of)
    return key


def _unknown(of: Entity | Aggregate) -> Problem:
    return Problem(404, "unknown_id", f"nothing of a {of.name} with this id is known")


def _answer(of: Entity | Aggregate, entity_id: str, fields: Fields) -> Response:
    body = {"entity": of.name, "id": entity_id, **fields}
    return Response(orjson.dumps(body), media_type="application/json")


def _time(text: str) -> int:
    try:
        at_ms = from_rfc3339(text)
    except (ValueError, OverflowError) as error:
        raise Problem(
            400, "bad_parameter", f"at is a time such as 2026-01-31T12:00:00Z: {error}"
        ) from None
    if not is_time_ms(at_ms) or at_ms > now_ms():
        raise Problem(400, "bad_parameter", "at lies in the future")
    return at_ms
