"""Payloads that became several events: stored when all of them are, in whatever transactions."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import islice

from clients.postgres.store import Connection
from shared.ids import part_id
from stream_jobs.persist.rows import EventRow

_ASKED_AT_ONCE = 50_000
# Two transactions that store events of one payload at the same time do this one after the other, so
# that the second one sees all of them.
_ONE_AFTER_ANOTHER = """
    SELECT pg_advisory_xact_lock(4729018, number) FROM (
        SELECT DISTINCT mod(hashtext(id), 64) AS number FROM unnest(%b::text[]) AS id ORDER BY 1
    ) AS numbers
"""
_STORED = """
    SELECT payload_id, count(*)
    FROM unnest(%b::text[], %b::text[]) AS wanted (payload_id, event_id)
    JOIN headrace.event USING (event_id) GROUP BY payload_id
"""


def stored_in_part(connection: Connection, rows: Iterable[EventRow]) -> frozenset[str]:
    """Payloads of these rows, by id, of which an event is still to come. Asked in the transaction
    that has stored the rows: whoever stores the last event of a payload finds none missing."""
    here: dict[str, set[int]] = defaultdict(set)
    parts: dict[str, int] = {}
    for row in rows:
        if row.parts > 1:
            here[row.payload_id].add(row.part)
            parts[row.payload_id] = row.parts
    some = [known for known, own in here.items() if len(own) < parts[known]]
    if not some:
        return frozenset()
    connection.execute(_ONE_AFTER_ANOTHER.encode(), [some])
    stored: Counter[str] = Counter()
    wanted = ((known, part_id(known, n)) for known in some for n in range(parts[known]))
    while pairs := list(islice(wanted, _ASKED_AT_ONCE)):
        columns = [list(column) for column in zip(*pairs, strict=True)]
        stored.update(dict(connection.execute(_STORED.encode(), columns).fetchall()))
    return frozenset(known for known in some if stored[known] < parts[known])
