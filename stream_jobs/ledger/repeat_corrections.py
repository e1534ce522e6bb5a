"""Corrections of states that counted an event twice.

fold remembers the last ids of an entity, the rows in PostgreSQL remember all. A repeat that came
after more ids than fold remembers has one row and two effects. The ledger knows it as a late
duplicate; then the event is sent as a correction of itself, so that fold asks for a refold of the
entity, and a refold counts each id once.
"""

import orjson

from clients.kafka.records import Outgoing, outgoing_events
from clients.postgres import outbox
from clients.postgres.store import Connection, judged_errors, save
from shared.events import envelope
from shared.events.envelope import EventRecord, Header, Position
from shared.flow_table import Flow
from shared.ids import tenant_of
from shared.published.ledger import PAGE_PLACES, Verdict

_AT_ONCE = 5_000
# of a key that was used for other bytes: known once fold has had its say
_REUSED = f"({Verdict.REUSED_KEY.value}, {Verdict.DISCARDED.value})"
_TAKEN_FOR_NEW = (
    f"({Verdict.LATE_REPEAT.value}, {Verdict.REUSED_KEY.value}, {Verdict.DISCARDED.value})"
)
# one event of an entity and type is enough: its refold counts all others once, too
_LATE = f"""
    WITH told AS (
        SELECT r.topic, r.partition, r.place, r.event_id,
               r.place < CASE WHEN r.is_known IS NULL THEN known.by_fold
                              ELSE least(known.by_fold, known.by_all) END AS is_folded,
               get_byte(page.verdicts, (r.place % {PAGE_PLACES})::int) AS verdict
        FROM headrace.repeat AS r
        JOIN headrace.ledger_page AS page
          ON (page.topic, page.partition, page.page)
           = (r.topic, r.partition, r.place / {PAGE_PLACES})
        JOIN headrace.ledger_partition AS known
          ON (known.topic, known.partition) = (r.topic, r.partition)
        LIMIT {_AT_ONCE}
    ), settled AS (
        DELETE FROM headrace.repeat AS r USING told
        WHERE (r.topic, r.partition, r.place, r.event_id)
            = (told.topic, told.partition, told.place, told.event_id)
          AND told.verdict > {Verdict.REPEAT.value}
          AND (told.is_folded OR (r.is_known IS NULL AND told.verdict NOT IN {_REUSED}))
        RETURNING r.event_id, told.verdict, r.is_known
    ), late AS (
        SELECT DISTINCT ON (entity_id, type) event_id
        FROM settled JOIN headrace.event USING (event_id)
        WHERE NOT coalesce(is_known, verdict NOT IN {_TAKEN_FOR_NEW})
        ORDER BY entity_id, type, row_key
    )
    UPDATE headrace.event AS known
    SET asked_revision = greatest(asked_revision, revision) + 1
    FROM late WHERE known.event_id = late.event_id
    RETURNING known.event_id, known.type, known.entity_id,
              (extract(epoch FROM event_time) * 1000)::bigint,
              (extract(epoch FROM arrived_at) * 1000)::bigint,
              origin, payload_sha256, data::text, asked_revision
"""
_NOTE = """
    INSERT INTO headrace.recount (event_id, revision)
    SELECT * FROM unnest(%b::text[], %b::int[])
    ON CONFLICT (event_id) DO UPDATE SET revision = excluded.revision
"""
_DONE = """
    DELETE FROM headrace.recount AS r WHERE NOT EXISTS
        (SELECT FROM headrace.event AS e WHERE e.event_id = r.event_id AND e.revision < r.revision)
"""


class RepeatCorrections:
    """Every method raises StoreAwayError where PostgreSQL does not answer."""

    def __init__(self, connection: Connection, flow: Flow) -> None:
        self._connection = connection
        self._topics = flow.topics_by_type
        # persist stores what it read in today's shape
        self._shapes = {row.name: row.shape for row in flow.event_types}

    def send(self) -> int:
        """How many entities are folded anew. In one transaction: none is forgotten."""
        with judged_errors(), self._connection.transaction():
            late = self._connection.execute(_LATE.encode()).fetchall()
            known = [found for found in late if found[1] in self._topics]
            outbox.put(self._connection, [row for found in known for row in self._rows(*found)])
            save(self._connection, _NOTE, [(found[0], found[-1]) for found in known])
        return len(known)

    def under_way(self) -> int:
        """How many entities have counted a repeat twice, and are not folded anew yet."""
        with judged_errors():
            self._connection.execute(_DONE.encode())
            found = self._connection.execute(b"SELECT count(*) FROM headrace.recount").fetchone()
        return int(found[0]) if found else 0

    def _rows(
        self,
        event_id: str,
        event_type: str,
        entity_id: str,
        time_ms: int,
        arrived_ms: int,
        origin: str,
        payload_sha256: str | None,
        data: str,
        revision: int,
    ) -> list[Outgoing]:
        record = EventRecord(
            position=Position("", 0, 0),
            entity_id=entity_id,
            id=event_id,
            type=event_type,
            time_ms=time_ms,
            arrived_ms=arrived_ms,
            origin=Position.parse(origin),
            attempt=1,
            data=orjson.loads(data),
            revision=revision,
            shape=self._shapes[event_type],
        )
        own: list[Header] = []
        if payload_sha256 is not None:
            own.append((envelope.PAYLOAD_SHA256, payload_sha256.encode()))
        if tenant := tenant_of(entity_id):
            own.append((envelope.TENANT, tenant.encode()))
        return outgoing_events(self._topics[event_type], record, own)
