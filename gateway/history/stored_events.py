"""Reads what persist has stored of an entity: by an index, and never more than a bounded part."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from clients.postgres.store import Connection
from gateway.history.versions import Around, Version, changes, place
from shared.events.envelope import EventRecord, Position
from shared.model import Fields

LIMIT_MAX = 1000
_LOOKED_AT_MAX = 2_000  # versions of one request; who seeks longer goes on with the next one
_BYTES_MAX = 2 * 1024 * 1024
_AT_ONCE = 10  # a state may be large
_EVENTS_AT_ONCE = 20
_EVENT_BYTES_MAX = 32 * 1024 * 1024
_MS = "(extract(epoch FROM {}) * 1000)::bigint"
_SELECT = f"""
    SELECT life, version, {_MS.format("at")}, {_MS.format("event_time")}, late, clock_off, deleted,
           state::text, {_MS.format("forgotten_at")}
    FROM headrace.state_version WHERE (entity, id) = (%(entity)s, %(id)s)
"""
_TIME = "'epoch'::timestamptz + %(at_ms)s * interval '1 ms'"
_NEWEST = f"{_SELECT} ORDER BY life DESC, version DESC LIMIT 1"
_LAST_VERSION = f"""{_SELECT} AND life = %(life)s AND version <= %(version)s
    ORDER BY version DESC LIMIT 1"""
_NEXT_VERSION = f"""{_SELECT} AND life = %(life)s AND version > %(version)s
    ORDER BY version LIMIT 1"""
_LAST_AT = f"{_SELECT} AND at <= {_TIME} ORDER BY at DESC, life DESC, version DESC LIMIT 1"
_NEXT_AT = f"{_SELECT} AND at > {_TIME} ORDER BY at, life, version LIMIT 1"
_BEFORE = f"""{_SELECT} AND (life, version) < (%(life)s, %(version)s)
    ORDER BY life DESC, version DESC LIMIT %(limit)s"""
_AFTER_ALL = 2**31 - 1, 0
_EVENTS = f"""
    SELECT event_id, type, entity_id, {_MS.format("event_time")}, {_MS.format("arrived_at")},
           origin, position, data::text, revision, coalesce(shape, 0), saw::text
    FROM headrace.event WHERE entity_id = %(id)s AND type = ANY(%(types)s)
    ORDER BY arrived_at LIMIT %(limit)s
"""


class Page(NamedTuple):
    entries: list[Fields]
    goes_on_after: str | None
    has_none: bool = False  # no version at all is kept


class TooManyEvents(Exception):  # noqa: N818 - it is an answer
    """One entity has more events than one question may fold."""


class Kept:
    """The kept versions of one entity; `full_id` has its tenant."""

    def __init__(self, connection: Connection, entity: str, full_id: str) -> None:
        self._connection = connection
        self._of = {"entity": entity, "id": full_id}

    def around_version(self, version: int) -> Around:
        """In the life that is the last one."""
        newest = self._one(_NEWEST)
        if newest is None:
            return Around(None, None, None)
        at = {"life": newest.life, "version": version}
        return Around(self._one(_LAST_VERSION, **at), self._one(_NEXT_VERSION, **at), newest)

    def around_time(self, at_ms: int) -> Around:
        newest = self._one(_NEWEST)
        if newest is None:
            return Around(None, None, None)
        last, then = self._one(_LAST_AT, at_ms=at_ms), self._one(_NEXT_AT, at_ms=at_ms)
        return Around(last, then, newest)

    def page(self, after: tuple[int, int] | None, limit: int, field: str | None) -> Page:
        """Newest first."""
        entries: list[Fields] = []
        at = after or _AFTER_ALL
        looked_at = size_bytes = 0
        while looked_at < _LOOKED_AT_MAX:
            rows = self._all(_BEFORE, life=at[0], version=at[1], limit=_AT_ONCE + 1)
            is_all = len(rows) <= _AT_ONCE
            for version, entry in changes(rows, is_all, field):
                if len(entries) == limit or size_bytes >= _BYTES_MAX:
                    return Page(entries, place(*at))
                looked_at, size_bytes = looked_at + 1, size_bytes + len(version.state)
                at = version.life, version.version
                if entry is not None:
                    entries.append(entry)
            if is_all:
                has_none = not looked_at and self._one(_NEWEST) is None
                return Page(entries, None, has_none)
            time.sleep(0)  # whoever waits for the interpreter has it now
        return Page(entries, place(*at))

    def events(self, types: Sequence[str], at_most: int) -> list[EventRecord]:
        """In the order in which they arrived, about as they are folded. TooManyEvents."""
        asked = {**self._of, "types": [*types], "limit": at_most + 1}
        found: list[EventRecord] = []
        size_bytes = 0
        with self._connection.transaction(), self._connection.cursor("events") as cursor:
            cursor.itersize = _EVENTS_AT_ONCE
            for row in cursor.execute(_EVENTS.encode(), asked):
                size_bytes += len(row[7])
                if len(found) == at_most or size_bytes > _EVENT_BYTES_MAX:
                    raise TooManyEvents
                found.append(_event(*row))
        return found

    def _one(self, query: str, **more: object) -> Version | None:
        return next(iter(self._all(query, **more)), None)

    def _all(self, query: str, **more: object) -> list[Version]:
        rows = self._connection.execute(query.encode(), {**self._of, **more})
        return [Version(*row) for row in rows]


def _event(
    event_id: str,
    kind: str,
    entity_id: str,
    time_ms: int,
    arrived_ms: int,
    origin: str,
    position: str,
    data: str,
    revision: int,
    shape: int,
    saw: str | None,
) -> EventRecord:
    return EventRecord(
        *(Position.parse(position), entity_id, event_id, kind, time_ms, arrived_ms),
        *(Position.parse(origin), 0, orjson.loads(data)),
        revision=revision,
        shape=shape,
        saw=orjson.loads(saw) if saw else None,
    )
