"""GET /state of a caller who knows what is to be in the state: a version, or an event.

It is looked at until it is so, whichever gateway took the payload.
"""

import asyncio
import time
from typing import Annotated, Any, NamedTuple

import orjson
from fastapi import Header, Query, Request
from pydantic import WithJsonSchema

from gateway.effects.places import Places
from gateway.effects.wait_request import RULE, TIMEOUT_S, seconds_of
from gateway.http.problems import Problem, retry_after
from gateway.peers.states import WITHIN_S, States, Told
from gateway.state.warming import refuse_while_warming
from gateway.state_view.reader import Found
from shared.folding.bursts import Bursts, holds
from shared.folding.snapshot import META, id_digest
from shared.model import Aggregate, Entity

_PAUSE_S, _PAUSE_MAX_S, _PAUSE_GROWS = 0.01, 0.1, 1.15
_After = Annotated[
    str | None,
    Query(
        max_length=1024,
        description="The `id` of a receipt, or of an event in it: the answer waits until the state "
        "has this event",
    ),
]
_Timeout = Annotated[
    str | None,
    Query(
        description=f"How long it waits for `after` and `If-Version-At-Least`: {RULE}; without it "
        f"{TIMEOUT_S:g}s",
        json_schema_extra={"pattern": r"^[0-9]{1,6}(\.[0-9]{1,3})?(ms|s)$"},
    ),
]
_Version = Annotated[
    int | None,
    WithJsonSchema({"type": "integer", "minimum": 0, "maximum": (1 << 63) - 1}),
    Header(
        ge=0,
        lt=1 << 63,
        description="The answer waits until the state has this version, or a higher one",
    ),
]


class Wanted(NamedTuple):
    after: str | None
    version: int | None
    timeout: str | None


async def wanted_of(
    after: _After = None, timeout: _Timeout = None, if_version_at_least: _Version = None
) -> Wanted | None:
    """What a request of /state wants to be in the state."""
    if after is None and if_version_at_least is None:
        return None
    return Wanted(after, if_version_at_least, timeout)


def has(meta: dict[str, Any], wanted: Wanted) -> bool:
    """What a state notes of itself."""
    if wanted.version is not None and meta["version"] < wanted.version:
        return False
    return wanted.after is None or _knows(meta, wanted.after)


def _knows(meta: dict[str, Any], event_id: str) -> bool:
    if event_id in meta.get("parked", ()):
        raise Problem(
            409,
            "event_parked",
            "fold has parked this event, so it is not in the state: its letter in dlq.fold.v1 says "
            "why",
        )
    digest = id_digest(event_id)
    if any(holds(ring, digest) for ring in meta.get("rings", {}).values()):
        return event_id not in meta.get("asked", ())
    return "bursts" in meta and Bursts(meta["bursts"]).holds(digest)


class ReadAfter:
    def __init__(self, states: States, longest_s: float, places: Places) -> None:
        self._states = states
        self._longest_s = longest_s
        self._places = places

    async def until(
        self, entity: Entity | Aggregate, key: str, wanted: Wanted, request: Request
    ) -> Told:
        """Problem where it is not so in time."""
        timeout_s = self._timeout_s(wanted.timeout)
        if wanted.after is not None and isinstance(entity, Aggregate):
            raise Problem(
                400,
                "no_events",
                f"{entity.name} is added up from states and knows no events: leave out `after`, "
                "and say If-Version-At-Least where you know its version",
            )
        until_s = time.monotonic() + timeout_s
        told = await self._states.find(entity, key, timeout_s or WITHIN_S)
        if timeout_s and not self._is_so(told, wanted):
            told = await self._later(entity, key, wanted, request, until_s, told)
        if not self._is_so(told, wanted):
            if self._states.is_divided(entity):  # nobody may have answered
                refuse_while_warming(entity, told.progress)
            raise _not_so(entity, wanted, told.found)
        return told

    async def _later(
        self,
        entity: Entity | Aggregate,
        key: str,
        wanted: Wanted,
        request: Request,
        until_s: float,
        told: Told,
    ) -> Told:
        """As it is when it is so, or when the time is over."""
        if not self._places.take():
            raise Problem(
                503,
                "too_many_waiting",
                "as many requests wait here as may (HEADRACE_WAITING_POSTS_MAX): ask again later, "
                "or another gateway",
                headers=retry_after(1),
            )
        pause_s = _PAUSE_S
        try:
            while (
                left_s := until_s - time.monotonic()
            ) > 0 and not await request.is_disconnected():
                await asyncio.sleep(min(max(pause_s, self._places.pause_s), left_s))
                pause_s = min(pause_s * _PAUSE_GROWS, _PAUSE_MAX_S)
                before, now = told, await self._find(entity, key, until_s)
                told = now if now.progress.warm or not self._states.is_divided(entity) else before
                if told.found != before.found and self._is_so(told, wanted):
                    break
        finally:
            self._places.give_back()
        return told

    async def _find(self, entity: Entity | Aggregate, key: str, until_s: float) -> Told:
        return await self._states.find(entity, key, max(0.0, until_s - time.monotonic()))

    def _timeout_s(self, text: str | None) -> float:
        if text is None:
            return min(TIMEOUT_S, self._longest_s)
        timeout_s = seconds_of(text)
        if timeout_s is None:
            raise Problem(400, "bad_timeout", f"{RULE}: ?timeout=5s")
        return min(timeout_s, self._longest_s)

    @staticmethod
    def _is_so(told: Told, wanted: Wanted) -> bool:
        if told.found is None:
            return wanted.after is None and not wanted.version
        return has(orjson.loads(told.found.value)[META], wanted)


def _not_so(entity: Entity | Aggregate, wanted: Wanted, found: Found | None) -> Problem:
    version = 0 if found is None else orjson.loads(found.value)[META]["version"]
    if wanted.version is not None and version < wanted.version:
        return Problem(
            412,
            "version_not_reached",
            f"this {entity.name} has version {version} here, not {wanted.version} yet: ask again, "
            "with a longer timeout",
        )
    return Problem(
        412,
        "event_not_folded",
        f"this {entity.name} does not have the event yet, or so many came after it that its id is "
        "forgotten: ask again, with a longer timeout, or without `after`",
    )
