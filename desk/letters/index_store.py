"""What the indexer alone writes of the letters in PostgreSQL."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

from psycopg.rows import DictRow

from clients.kafka.records import Partition
from clients.postgres.store import judged_errors, save
from desk.letters.store import LetterBook
from shared.ids import tenant_of
from shared.published.dead_letters import Letter

_ONE_INDEXER_AT_A_TIME = 4_729_018_805

# A record may be read again, and a stage may have written it twice: then its attempt is known.
_SAVE_ATTEMPTS = """
    INSERT INTO headrace.letter_attempt (letter, number, at, stage, cause, detail, software)
    SELECT letter, number, 'epoch'::timestamptz + at_ms * interval '1 millisecond',
           stage, cause, detail, software
    FROM unnest(%b::text[], %b::int[], %b::bigint[], %b::text[], %b::text[], %b::text[], %b::text[])
        AS given (letter, number, at_ms, stage, cause, detail, software)
    ON CONFLICT DO NOTHING
"""
# Parked anew only by an attempt that was not known: what is written twice does not undo what an
# operator has done since.
_SAVE_LETTER = """
    INSERT INTO headrace.letter AS known
        (id, status, stage, cause, detail, endpoint, entity_id, tenant, event_id, origin, payload,
         payload_sha256, bytes, software, attempt, times, arrived_at, first_parked, parked_at,
         topic, partition, "offset")
    VALUES (%(id)s, 'parked', %(stage)s, %(cause)s, %(detail)s, %(endpoint)s, %(entity_id)s,
            %(tenant)s, %(event_id)s, %(origin)s, %(payload)s, %(payload_sha256)s, %(bytes)s,
            %(software)s, %(attempt)s, 1,
            'epoch'::timestamptz + %(arrived_ms)s * interval '1 millisecond',
            'epoch'::timestamptz + %(parked_ms)s * interval '1 millisecond',
            'epoch'::timestamptz + %(parked_ms)s * interval '1 millisecond',
            %(topic)s, %(partition)s, %(offset)s)
    ON CONFLICT (id) DO UPDATE SET
        status = 'parked', cause = excluded.cause, detail = excluded.detail,
        payload_sha256 = excluded.payload_sha256, bytes = excluded.bytes,
        software = excluded.software, attempt = excluded.attempt, times = known.times + 1,
        parked_at = excluded.parked_at, topic = excluded.topic, partition = excluded.partition,
        "offset" = excluded."offset", parked_in = pg_current_xact_id()
    WHERE excluded.attempt > known.attempt
"""
_SAVE_PLACES = """
    INSERT INTO headrace.letter_place (topic, partition, next)
    SELECT * FROM unnest(%b::text[], %b::int[], %b::bigint[])
    ON CONFLICT (topic, partition) DO UPDATE SET next = excluded.next
"""
# An event that fold or forward could not take has its row all the same.
_NOTE_STORED = """
    UPDATE headrace.letter SET status = 'done'
    FROM headrace.event AS event
    WHERE letter.status = 'redriven' AND letter.stage NOT IN ('fold', 'forward')
      AND letter.event_id = event.event_id
"""
# It never has another one; one that was indexed before this was known has none yet.
_SAVE_HOOKS = """
    UPDATE headrace.letter SET hook = given.hook
    FROM unnest(%b::text[], %b::text[]) AS given (id, hook)
    WHERE letter.id = given.id AND letter.hook IS NULL
"""
_COUNT_ROWS_MAX = 1000
_SUM_COUNTS_UP = """
    WITH summed AS (
        DELETE FROM headrace.letter_count
        WHERE (SELECT count(*) FROM headrace.letter_count) > %s RETURNING *
    )
    INSERT INTO headrace.letter_count
    SELECT status, stage, cause, sum(letters), sum(came_back), sum(again) FROM summed
    GROUP BY status, stage, cause
    HAVING (sum(letters), sum(came_back), sum(again)) <> (0, 0, 0)
"""


class LetterIndex(LetterBook):
    def take_lead(self) -> bool:
        """True for one indexer at a time, until its connection ends."""
        return self.values("SELECT pg_try_advisory_lock(%s)", _ONE_INDEXER_AT_A_TIME) == [(True,)]

    def places(self) -> dict[Partition, int]:
        rows = self.values("SELECT topic, partition, next FROM headrace.letter_place")
        return {(topic, partition): place for topic, partition, place in rows}

    def index(self, letters: Sequence[Letter], places: Mapping[Partition, int]) -> None:
        """Together with how far it has come, so that no letter is left out."""
        with judged_errors(), self.connection.transaction():
            with self.connection.cursor() as cursor:
                cursor.executemany(_SAVE_LETTER, [_columns(letter) for letter in letters])
            save(self.connection, _SAVE_HOOKS, [(one.id, one.hook) for one in letters if one.hook])
            attempts = {(one.id, a.number): a for one in letters for a in one.attempts}
            save(self.connection, _SAVE_ATTEMPTS, [(id_, *a) for (id_, _), a in attempts.items()])
            save(self.connection, _SAVE_PLACES, [(*at, next_) for at, next_ in places.items()])

    def note_stored(self) -> int:
        """Marks as done what is under way and has become a row."""
        with judged_errors():
            return self.connection.execute(_NOTE_STORED).rowcount

    def under_way_to(self, stage: str, limit: int) -> list[DictRow]:
        return self.rows(
            "SELECT * FROM headrace.letter WHERE status = 'redriven' AND stage = %s LIMIT %s",
            stage,
            limit,
        )

    def sum_counts_up(self) -> None:
        """For one at a time, now and then: each statement has added rows of its own."""
        with judged_errors():
            self.connection.execute(_SUM_COUNTS_UP, (_COUNT_ROWS_MAX,))


def _columns(letter: Letter) -> DictRow:
    value = letter.value or b""
    return {
        "id": letter.id,
        "stage": letter.last.stage,
        "cause": letter.last.cause,
        "detail": letter.last.detail,
        "endpoint": letter.endpoint,
        "entity_id": letter.entity_id,
        "tenant": tenant_of(letter.entity_id or ""),
        "event_id": letter.event_id,
        "origin": str(letter.origin),
        "payload": None if letter.payload is None else str(letter.payload),
        "payload_sha256": sha256(value).hexdigest(),
        "bytes": len(value),
        "software": letter.last.software,
        "attempt": letter.last.number,
        "arrived_ms": letter.arrived_ms,
        "parked_ms": letter.last.at_ms,
        **letter.place._asdict(),
    }
