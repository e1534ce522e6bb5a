"""Corrections: payloads of stored events go through enrich again, under a higher revision.

A run has a name. What it sends and how far it has come are one transaction, the relay brings what
was sent to its topic: so a run that was killed goes on where it was, and the same name never
sends a payload twice.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import orjson

from clients.kafka.records import Outgoing, Record
from clients.postgres import outbox
from clients.postgres.store import Connection, judged_errors
from shared.events import envelope, redelivery
from shared.events.envelope import Position
from shared.topic_names import again_topic

_ROWS_AT_ONCE = 200
_WHOSE = (envelope.SUBJECT, envelope.PARTS_OF)

Found = Mapping[Position, Record]

_BEGIN = """
    INSERT INTO headrace.reenrich_run (name, entity_id, from_time, to_time, last_row_key, chosen)
    SELECT %b, %b, {from_time}, {to_time}, coalesce(max(row_key), -1), count(*)
    FROM headrace.event WHERE {condition} ON CONFLICT (name) DO NOTHING
"""
_KNOWN = """
    SELECT entity_id, (extract(epoch FROM from_time) * 1000)::bigint,
           (extract(epoch FROM to_time) * 1000)::bigint,
           last_row_key, chosen, done_row_key, sent, gone, ended_at IS NOT NULL
    FROM headrace.reenrich_run WHERE name = %b
"""
_FROM, _TO = ("'epoch'::timestamptz + %b::bigint * interval '1 millisecond'" for _ in range(2))
# what follows from an event is made anew when the event is: it has no payload
_CONDITION = f"""
    entity_id = %b AND event_time >= {_FROM} AND event_time < {_TO}
    AND split_part(origin, '/', 1) = ANY(%b)
"""
_NEXT = f"""
    SELECT row_key, event_id, entity_id, origin, payload_sha256 FROM headrace.event
    WHERE {_CONDITION} AND row_key > %b AND row_key <= %b ORDER BY row_key LIMIT %b
"""
# A payload is corrected as a whole: all its events get one revision, and stay whose they are.
# Ids of events that are one of several go from "id#" to, but without, "id$".
_RAISE = """
    WITH own AS MATERIALIZED (
        SELECT payload_id, event_id, entity_id, greatest(asked_revision, revision) AS known
        FROM unnest(%b::text[], %b::text[]) AS payload (payload_id, place)
        JOIN headrace.event ON origin = place AND (event_id = payload_id
          OR (event_id > payload_id || '#' AND event_id < payload_id || '$'))
        ORDER BY payload_id, length(event_id), event_id
    ), raised AS (
        SELECT payload_id, max(known) + 1 AS revision, array_agg(entity_id) AS entities
        FROM own GROUP BY payload_id
    ), kept AS (
        UPDATE headrace.event AS known SET asked_revision = raised.revision
        FROM own JOIN raised USING (payload_id) WHERE known.event_id = own.event_id
    )
    SELECT payload_id, revision, entities FROM raised
"""
_ADVANCE = """
    UPDATE headrace.reenrich_run
    SET done_row_key = %b, sent = sent + %b, gone = gone + %b WHERE name = %b
"""


class RunExistsError(Exception):
    """Under this name another run is known; its words say which."""


class Chosen(NamedTuple):
    row_key: int
    event_id: str
    entity_id: str
    origin: Position
    payload_sha256: str | None


class Run(NamedTuple):
    name: str
    entity_id: str
    from_ms: int
    to_ms: int
    last_row_key: int = -1
    chosen: int = 0
    done_row_key: int = -1
    sent: int = 0
    gone: int = 0
    is_over: bool = False


class Reenrich:
    """Every method raises StoreAwayError where PostgreSQL does not answer."""

    def __init__(self, connection: Connection, ingest_topics: Sequence[str]) -> None:
        self._connection = connection
        self._ingest_topics = list(ingest_topics)

    def begin(self, wanted: Run) -> Run:
        """Or what is known of it, if it has begun before: of events stored later it takes none."""
        begin = _BEGIN.format(from_time=_FROM, to_time=_TO, condition=_CONDITION)
        own = (wanted.entity_id, wanted.from_ms, wanted.to_ms)
        with judged_errors():
            self._connection.execute(begin.encode(), (wanted.name, *own, *own, self._ingest_topics))
            known = self.known(wanted.name)
        assert known is not None
        if known[1:4] != own:
            raise RunExistsError(
                f"a run {wanted.name!r} is known, of {known.entity_id} and other times"
            )
        return known

    def known(self, name: str) -> Run | None:
        with judged_errors():
            row = self._connection.execute(_KNOWN.encode(), (name,)).fetchone()
        return Run(name, *row) if row else None

    def chosen(self, run: Run) -> Iterator[list[Chosen]]:
        """What is left of it, in pieces; of a run that was not begun, all."""
        done, last = run.done_row_key, run.last_row_key if run.chosen else 1 << 62
        while rows := self._next(run, done, last):
            yield rows
            done = rows[-1].row_key

    def _next(self, run: Run, done: int, last: int) -> list[Chosen]:
        arguments = (run.entity_id, run.from_ms, run.to_ms, self._ingest_topics)
        with judged_errors():
            found = self._connection.execute(
                _NEXT.encode(), (*arguments, done, last, _ROWS_AT_ONCE)
            )
            return [
                Chosen(key, event, own, Position.parse(origin), digest)
                for key, event, own, origin, digest in found
            ]

    def send(
        self, run: Run, rows: Sequence[Chosen], found: Found, done: Collection[Position] = ()
    ) -> Run:
        """Once, whoever else works on the same run; not those payloads that are `done` already, of
        which a former piece had an event. What it knows of the run afterwards."""
        there = [row for row in rows if is_still_there(row, found)]
        lock = b"SELECT done_row_key FROM headrace.reenrich_run WHERE name = %b FOR UPDATE"
        with judged_errors(), self._connection.transaction():
            at = self._connection.execute(lock, (run.name,)).fetchone()
            if at == (run.done_row_key,):
                origins = {row.origin for row in there}.difference(done)
                payloads = {_payload_id(origin, found): origin for origin in sorted(origins)}
                places = [str(origin) for origin in payloads.values()]
                raised = self._connection.execute(_RAISE, ([*payloads], places)).fetchall()
                records = [
                    _again(payloads[payload_id], found, revision, entities)
                    for payload_id, revision, entities in raised
                ]
                outbox.put(self._connection, records)
                gone = len(rows) - len(there)
                self._connection.execute(_ADVANCE, (rows[-1].row_key, len(records), gone, run.name))
        known = self.known(run.name)
        assert known is not None
        return known

    def end(self, run: Run) -> None:
        with judged_errors():
            self._connection.execute(
                b"UPDATE headrace.reenrich_run SET ended_at = now() WHERE name = %b", (run.name,)
            )


def is_still_there(row: Chosen, found: Found) -> bool:
    """The very payload: its topic may have been made anew, or an operator may have mended a copy
    of it, and the event came of that."""
    if row.origin not in found:
        return False
    digest = sha256(found[row.origin].value or b"").hexdigest()
    payload_id = _payload_id(row.origin, found)
    is_its_event = row.event_id == payload_id or row.event_id.startswith(f"{payload_id}#")
    return is_its_event and row.payload_sha256 in (None, digest)


def _payload_id(origin: Position, found: Found) -> str:
    return envelope.text(found[origin].headers, envelope.ID) or str(origin)


def _again(origin: Position, found: Found, revision: int, entities: Sequence[str]) -> Outgoing:
    record = found[origin]
    first = redelivery.FirstArrival(origin, record.time_ms, attempt=1, revision=revision)
    own = [(name, value) for name, value in record.headers if name not in _WHOSE]
    # the entities whose states hold its events as they were: a correction takes none from there
    several = [(envelope.PARTS_OF, orjson.dumps(entities))] if len(entities) > 1 else []
    whose = (envelope.SUBJECT, entities[0].encode())
    headers = [*redelivery.headers_of(own, first), whose, *several]
    return Outgoing(again_topic("enrich"), record.key, record.value, headers)


def send_all(
    work: Reenrich,
    run: Run,
    read: Callable[[list[Position]], Found],
    tell: Callable[[Run], None],
) -> tuple[Run, list[Chosen]]:
    """The run when it is over, and those whose payloads are gone, of what was left of it."""
    gone: list[Chosen] = []
    done: set[Position] = set()
    while rows := next(work.chosen(run), []):
        found = read([row.origin for row in rows])
        gone += [row for row in rows if not is_still_there(row, found)]
        run = work.send(run, rows, found, done)
        done.update(row.origin for row in rows)
        tell(run)
    if not run.is_over:
        work.end(run)
    return run._replace(is_over=True), gone
