"""What PostgreSQL knows of one payload: each question by an index, of a bounded number of rows."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from psycopg.rows import dict_row

from clients.postgres.store import Connection, answered_within, judged_errors
from shared.events import envelope
from shared.events.envelope import Position
from shared.ids import completion_id, line_alone
from shared.model import Fields

EVENTS_MAX = 1000
_SLOW_AFTER_S = 5.0
_OUTBOX_MAX = 1_000
_LINE_MAX = 2_000
_VERSIONS_MAX = 500
_OF_PAYLOAD = "(event_id = %(id)s OR (event_id > %(begin)s AND event_id < %(end)s))"
_EVENTS = f"""
    SELECT event_id, type, entity_id, event_time, stored_at, position, origin,
           coalesce(revision, 0) AS revision, saw, row_key,
           (extract(epoch FROM stored_at) * 1000)::bigint AS stored_ms,
           (extract(epoch FROM arrived_at) * 1000)::bigint AS arrived_ms
    FROM headrace.event WHERE {_OF_PAYLOAD} ORDER BY row_key LIMIT {EVENTS_MAX}
"""
_LETTERS = f"""
    SELECT id, status, stage, cause, detail, parked_at, payload, entity_id
    FROM headrace.letter WHERE {_OF_PAYLOAD} ORDER BY parked_at DESC LIMIT 100
"""
# a line is the entity's; that of what waits alone has its place in its name
_WAITING = f"""
    SELECT topic, partition, "offset", line, since, due_at, tries, reason, detail,
           EXISTS (
               SELECT FROM jsonb_array_elements(headers) AS header
               WHERE header->>0 = '{envelope.ID}'
                 AND (header->>1 = %(id)s OR starts_with(header->>1, %(begin)s))
           ) AS is_its_own
    FROM (
        SELECT topic, partition, "offset", line, headers, since, due_at, tries, reason, detail
        FROM headrace.waiting_row
        WHERE (line = %(line)s OR (line > %(alone)s AND line < %(alone_end)s))
          AND topic = ANY(%(topics)s)
        ORDER BY topic, partition, "offset" LIMIT {_LINE_MAX}
    ) AS of_line
"""
_TO_BE_SENT = f"""
    SELECT id FROM unnest(%(ids)s::text[]) AS id
    WHERE EXISTS (
        SELECT FROM (
            SELECT topic, headers FROM headrace.outbox ORDER BY seq LIMIT {_OUTBOX_MAX}
        ) AS first
        WHERE topic LIKE 'completion.%%'
          AND headers @> jsonb_build_array(jsonb_build_array('{envelope.ID}', id))
    )
"""
_TO_BE_SENT_COUNT = f"""
    SELECT count(*) AS rows FROM (SELECT topic FROM headrace.outbox LIMIT {_OUTBOX_MAX} + 1) AS few
"""
# of a version that an earlier Headrace kept it is not known how far its log was in it: the event
# may have been in that one already
_VERSION_WITH = f"""
    WITH kept AS (
        SELECT life, version, at, positions FROM headrace.state_version
        WHERE (entity, id) = (%(entity)s, %(id)s)
          AND at >= 'epoch'::timestamptz + %(since_ms)s * interval '1 ms'
        ORDER BY at, life, version LIMIT {_VERSIONS_MAX}
    ), first AS (
        SELECT life, version, at FROM kept
        WHERE (positions ->> %(log)s::text)::bigint >= %(offset)s ORDER BY at, life, version LIMIT 1
    )
    SELECT version, at, NOT EXISTS (
        SELECT FROM kept WHERE kept.positions IS NULL
          AND (kept.at, kept.life, kept.version) < (first.at, first.life, first.version)
    ) AS is_exact FROM first
"""


class StoredEvent(NamedTuple):
    id: str
    type: str
    entity_id: str
    time: str
    stored_at: str
    place: str  # in the event log
    origin: str  # of its payload
    revision: int
    saw: Fields | None
    row_key: int
    stored_ms: int
    arrived_ms: int


class WaitingRow(NamedTuple):
    place: Position
    is_its_own: bool
    reason: str
    detail: str
    since: str
    next_try: str
    tries: int
    is_alone: bool


class Rows:
    """StoreAwayError where it does not answer in time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def events(self, payload_id: str) -> list[StoredEvent]:
        rows = self._rows(_EVENTS, **_ids(payload_id))
        return [StoredEvent(*map(_text, row.values())) for row in rows]

    def letters(self, payload_id: str) -> list[Fields]:
        rows = self._rows(_LETTERS, **_ids(payload_id))
        return [{name: _text(value) for name, value in row.items()} for row in rows]

    def waiting(
        self, payload_id: str, entity_id: str, topics: Collection[str]
    ) -> Sequence[WaitingRow]:
        """The rows that wait in its line in persist: the first one and its own ones; and its own
        ones that wait alone."""
        alone = line_alone(entity_id, "")
        asked = {"line": entity_id, "alone": alone, "alone_end": f"{alone}\U0010ffff"}
        found = self._rows(_WAITING, **_ids(payload_id), **asked, topics=[*topics])
        return [
            WaitingRow(
                Position(row["topic"], row["partition"], row["offset"]),
                row["is_its_own"],
                row["reason"],
                row["detail"],
                _text(row["since"]),
                _text(row["due_at"]),
                row["tries"],
                row["line"] != entity_id,
            )
            for row in found
        ]

    def completed(self, events: Sequence[StoredEvent]) -> Mapping[str, bool | None]:
        """Whether the completion of each event has left the outbox; None: there are too many to
        look."""
        if not events:
            return {}
        (count,) = self._rows(_TO_BE_SENT_COUNT)
        ids = {completion_id(event.id, event.revision): event.id for event in events}
        waiting = {ids[row["id"]] for row in self._rows(_TO_BE_SENT, ids=[*ids])}
        others = True if count["rows"] <= _OUTBOX_MAX else None
        return {event.id: False if event.id in waiting else others for event in events}

    def version_with(
        self, entity: str, entity_id: str, place: Position, since_ms: int
    ) -> tuple[int, str, bool] | None:
        """The first that was kept with this event in it, when, and whether it is the first one for
        certain."""
        log = f"{place.topic}/{place.partition}"
        asked = {"entity": entity, "id": entity_id, "since_ms": since_ms}
        for row in self._rows(_VERSION_WITH, **asked, log=log, offset=place.offset):
            return row["version"], _text(row["at"]), row["is_exact"]
        return None

    def _rows(self, query: str, **asked: object) -> list[dict[str, Any]]:
        # no table holds one; whoever may write to Kafka may write it there
        if any("\0" in told for told in asked.values() if isinstance(told, str)):
            return []
        connection = self._connection
        with (
            answered_within(connection, _SLOW_AFTER_S),
            judged_errors(),
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            return cursor.execute(query.encode(), asked).fetchall()


def _ids(payload_id: str) -> dict[str, str]:
    """Further events of one payload are called <id>#1 and so on."""
    return {"id": payload_id, "begin": f"{payload_id}#", "end": f"{payload_id}$"}


def _text(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value
