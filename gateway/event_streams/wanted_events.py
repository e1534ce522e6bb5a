"""Which events a stream shows, and from where: what query and Last-Event-ID ask for. Pure."""

from collections.abc import Collection
from typing import NamedTuple
from urllib.parse import parse_qsl

from gateway.auth.caller import Caller
from gateway.http.message import Request
from gateway.http.problems import Problem
from shared.flow_table import Flow
from shared.ids import ENTITY_ID, ENTITY_ID_RULE, full_id
from shared.timestamps import from_rfc3339

ENTITIES_MAX = 100
_ONCE = ("tenant", "from", "since", "after")
_NAMES = ("type", "entity", *_ONCE)


class Wanted(NamedTuple):
    """The wall between tenants is here: keys are full ids, and a stream without keys has one
    tenant."""

    tenant: bytes
    types: frozenset[str] | None = None  # None: all
    keys: frozenset[bytes] | None = None

    def takes_key(self, key: bytes) -> bool:
        return tenant_of(key) == self.tenant and (self.keys is None or key in self.keys)

    def takes_type(self, name: str) -> bool:
        return self.types is None or name in self.types

    def topics(self, flow: Flow) -> frozenset[str] | None:
        if self.types is None:
            return None
        return frozenset(flow.event_type(name).topic for name in self.types)


class Start(NamedTuple):
    """Where to begin; with none of these, with what comes from now on."""

    after: str | None = None  # an id
    since_ms: int | None = None
    is_earliest: bool = False


def tenant_of(key: bytes) -> bytes:
    return key.partition(b"/")[0] if b"/" in key else b""


def asked_by(request: Request, caller: Caller, flow: Flow) -> tuple[Wanted, Start]:
    """Problem says what is wrong with the request, or that the caller may not have it."""
    given = _query_of(request)
    (tenant,) = given.get("tenant", [caller.tenant])
    if tenant != caller.tenant and not caller.all_tenants:
        raise Problem(
            403,
            "not_your_tenant",
            "this credential reads its own tenant's events: leave it out",
        )
    keys = _entities(given.get("entity", ()), caller, tenant)
    return Wanted(tenant.encode(), _types(given.get("type", ()), flow), keys), _start(
        given, request.by_name.get(b"last-event-id", b"").decode("latin-1")
    )


def _query_of(request: Request) -> dict[str, list[str]]:
    query = request.target.partition(b"?")[2].decode("latin-1")
    given: dict[str, list[str]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True, encoding="utf-8"):
        if name not in _NAMES:
            known = ", ".join(_NAMES)
            raise _bad("unknown_parameter", f"there is no such parameter; there are: {known}")
        given.setdefault(name, []).append(value)
    for name in _ONCE:
        if len(given.get(name, ())) > 1:
            raise _bad("repeated_parameter", f"send {name} once")
    return given


def _types(names: Collection[str], flow: Flow) -> frozenset[str] | None:
    known = [row.name for row in flow.event_types]
    if not set(names) <= set(known):
        raise _bad("unknown_type", f"no such event type; there are: {', '.join(known)}")
    return frozenset(names) or None


def _entities(ids: Collection[str], caller: Caller, tenant: str) -> frozenset[bytes] | None:
    if len(ids) > ENTITIES_MAX:
        raise _bad("too_many_entities", f"a stream names at most {ENTITIES_MAX} entities")
    for one in ids:
        if not ENTITY_ID.fullmatch(one):
            raise _bad("bad_entity_id", ENTITY_ID_RULE)
        if not caller.is_own(one):
            raise Problem(
                403,
                "not_your_id",
                f"this credential is that of {caller.device}, which reads its own events alone",
            )
    own = ids or ([] if caller.device is None else [caller.device])
    return frozenset(full_id(tenant, one).encode() for one in own) or None


def _start(given: dict[str, list[str]], last_event_id: str) -> Start:
    """A browser that comes again asks for the same URL as the first time, and says in the header
    where it was: so that one counts."""
    (after,) = given.get("after", [""])
    if last_event_id or after:
        return Start(last_event_id or after)
    if "since" in given:
        return Start(since_ms=_time(given["since"][0]))
    (begin,) = given.get("from", ["now"])
    if begin not in ("now", "earliest"):
        raise _bad("bad_start", "`from` is `earliest` or `now`; a time goes into `since`")
    return Start(is_earliest=begin == "earliest")


def _time(text: str) -> int:
    try:
        return max(0, from_rfc3339(text))
    except (ValueError, OverflowError):
        raise _bad(
            "bad_time",
            "`since` is a time as 2026-11-26T08:00:00Z, its + written as %2B in a URL",
        ) from None


def _bad(code: str, detail: str) -> Problem:
    return Problem(400, code, detail)
