"""The outbox: what is put into it, and, as its relay sees it, rows to send until they are sent."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from clients.postgres.store import (
    SLOW_AFTER_S,
    Connection,
    answered_within,
    judged_errors,
    save,
)
from shared.events.envelope import Header

_CHANNEL = "headrace_outbox"
_ONE_RELAY_AT_A_TIME = 4_729_018_802
# dead letters hold whole payloads: a batch of them must fit into memory
_BATCH_BYTES_MAX = 16 * 1024 * 1024
# beyond this many rows the depth is an estimate: an exact count would read them all
_COUNTED_ROWS_MAX = 100_000
_PUT = """
    INSERT INTO headrace.outbox (topic, key, value, headers)
    SELECT topic, key, value, headers::jsonb
    FROM unnest(%b::text[], %b::bytea[], %b::bytea[], %b::text[]) WITH ORDINALITY
        AS given (topic, key, value, headers, number) ORDER BY number
"""

Message = tuple[str, bytes | None, bytes | None, Sequence[Header]]  # topic, key, value, headers


class OutboxRow(NamedTuple):
    seq: int
    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class Depth(NamedTuple):
    records: int
    oldest_s: float


class Outbox:
    """Every method raises StoreAwayError where PostgreSQL does not answer."""

    def __init__(self, connection: Connection, slow_after_s: float = SLOW_AFTER_S) -> None:
        self._connection = connection
        self._slow_after_s = slow_after_s

    @contextmanager
    def _asking(self) -> Iterator[None]:
        with answered_within(self._connection, self._slow_after_s * 2), judged_errors():
            yield

    def take_lead(self) -> bool:
        """True for one relay at a time, until its connection ends."""
        with judged_errors():
            row = self._connection.execute(
                "SELECT pg_try_advisory_lock(%s)", (_ONE_RELAY_AT_A_TIME,)
            ).fetchone()
            return row == (True,)

    def listen(self) -> None:
        with judged_errors():
            self._connection.execute(f"LISTEN {_CHANNEL}".encode())

    def wait(self, timeout_s: float) -> None:
        """Until rows are written, or the time is over."""
        with judged_errors():
            for _ in self._connection.notifies(timeout=timeout_s, stop_after=1):
                pass

    def pending(self, limit: int, except_topics: Sequence[str] = ()) -> list[OutboxRow]:
        return self._rows("topic <> ALL(%s)", list(except_topics), limit)

    def first_of(self, topic: str) -> list[OutboxRow]:
        return self._rows("topic = %s", topic, 1)

    def _rows(self, condition: str, argument: object, limit: int) -> list[OutboxRow]:
        query = f"""
            SELECT seq, topic, key, value, headers FROM (
                SELECT *, sum(octet_length(value)) OVER (ORDER BY seq) - octet_length(value)
                    AS bytes_before
                FROM (SELECT * FROM headrace.outbox
                      WHERE {condition} ORDER BY seq LIMIT %s) AS first_rows
            ) AS counted
            WHERE coalesce(bytes_before, 0) < %s ORDER BY seq"""
        with self._asking(), self._connection.cursor(binary=True) as cursor:
            cursor.execute(query.encode(), (argument, limit, _BATCH_BYTES_MAX))
            return [
                OutboxRow(seq, topic, key, value, header_pairs(headers))
                for seq, topic, key, value, headers in cursor
            ]

    def remove(self, seqs: list[int]) -> None:
        with self._asking():
            self._connection.execute("DELETE FROM headrace.outbox WHERE seq = ANY(%s)", (seqs,))

    def depth(self) -> Depth:
        with self._asking():
            row = self._connection.execute(
                """SELECT counted.rows,
                          coalesce((SELECT max(seq) - min(seq) + 1 FROM headrace.outbox), 0),
                          coalesce((SELECT extract(epoch FROM clock_timestamp() - created_at)
                                    FROM headrace.outbox ORDER BY seq LIMIT 1), 0)::float8
                   FROM (SELECT count(*) AS rows
                         FROM (SELECT FROM headrace.outbox LIMIT %s) AS first) AS counted""",
                (_COUNTED_ROWS_MAX,),
            ).fetchone()
        assert row is not None
        counted, spread, oldest_s = row
        return Depth(max(counted, spread) if counted == _COUNTED_ROWS_MAX else counted, oldest_s)


def put(connection: Connection, messages: Iterable[Message]) -> None:
    """In their order; in the caller's transaction."""
    save(connection, _PUT, [(*told, json.dumps(header_rows(its))) for *told, its in messages])


def header_rows(headers: Sequence[Header]) -> list[list[str]]:
    """Headers as the column `headers` holds them; anyone may have written them, in any bytes."""
    return [_header_row(name, value) for name, value in headers]


def _header_row(name: str, value: bytes) -> list[str]:
    name = name.replace("\0", "\\0")
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return [name, b64encode(value).decode(), "base64"]
    return [name, text]


def header_pairs(rows: list[list[str]]) -> list[Header]:
    return [
        (name, b64decode(text) if encoding else text.encode()) for name, text, *encoding in rows
    ]
