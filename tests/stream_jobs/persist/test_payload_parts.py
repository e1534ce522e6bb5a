"""A payload that became several events is stored when all of them are, whoever stores them."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from clients.kafka.records import Record
from clients.postgres import store
from shared.events.envelope import Position
from shared.ids import part_id
from shared.published.ledger import Verdict
from stream_jobs.persist.rows import EventRow
from stream_jobs.persist.table_writer import Written
from stream_jobs.persist.writer import EventStore

pytestmark = pytest.mark.stack


def _part(payload: int, part: int, parts: int, place: int | None = None) -> EventRow:
    at = Position("ingest.batch.v1", 0, payload if place is None else place)
    event_id = part_id(f"p{payload}", part)
    return EventRow(
        Record(Position("event.fix.v1", part % 3, at.offset * 100 + part), b"d", b"{}", []),
        event_id,
        "fix",
        f"truck-{part}",
        1_000,
        2_000,
        str(at),
        "1" * 64,
        "{}",
        "completion.fix.v1",
        [("ce_id", event_id.encode())],
        at,
        part=part,
        parts=parts,
    )


@pytest.fixture
def writer(postgres_url: str) -> Iterator[EventStore]:
    writer = EventStore(postgres_url)
    yield writer
    writer.close()


def _told(connection: store.Connection) -> dict[int, set[int]]:
    """By place, what the journal says of it."""
    found: dict[int, set[int]] = {}
    for first, verdicts in connection.execute(
        "SELECT first, verdicts FROM headrace.ledger_journal"
    ):
        for at, verdict in enumerate(verdicts):
            if verdict:
                found.setdefault(first + at, set()).add(verdict)
    return found


def test_it_is_told_with_its_last_event_and_not_before(
    writer: EventStore, connection: store.Connection
) -> None:
    assert writer.write([_part(7, 0, 3), _part(8, 0, 1)]) == Written(events=2)
    assert writer.write([_part(7, 2, 3)]) == Written(events=1)
    assert _told(connection) == {8: {Verdict.STORED}}
    assert writer.write([_part(7, 2, 3), _part(7, 0, 3)]) == Written()  # the batch comes again
    assert _told(connection) == {8: {Verdict.STORED}}
    assert writer.write([_part(7, 1, 3)]) == Written(events=1)
    assert _told(connection) == {7: {Verdict.STORED}, 8: {Verdict.STORED}}


def test_together_they_are_told_at_once(writer: EventStore, connection: store.Connection) -> None:
    assert writer.write([_part(7, n, 12) for n in range(12)]) == Written(events=12)
    assert _told(connection) == {7: {Verdict.STORED}}


def test_a_repeat_of_some_of_them_is_a_repeat_of_the_payload(
    writer: EventStore, connection: store.Connection
) -> None:
    writer.write([_part(7, n, 2) for n in range(2)])
    writer.write([_part(7, n, 2, place=9) for n in range(2)])
    assert _told(connection) == {7: {Verdict.STORED}, 9: {Verdict.REPEAT}}
    kept = connection.execute("SELECT place, event_id, is_known FROM headrace.repeat ORDER BY 2")
    assert kept.fetchall() == [(9, "p7", False), (9, "p7#1", False)]


def test_whoever_stores_the_last_one_at_the_same_time_as_others_tells_of_it(
    postgres_url: str, connection: store.Connection
) -> None:
    """Tasks of several partitions, each in transactions of its own: none sees what the others have
    not committed."""
    chance = random.Random(7)
    payloads = 150
    rows = [_part(n, part, 4) for n in range(payloads) for part in range(4)]
    chance.shuffle(rows)

    def store_all(own: list[EventRow]) -> None:
        writer = EventStore(postgres_url)
        while own:
            some = chance.randint(1, 12)
            writer.write(own[:some])
            own = own[some:]
        writer.close()

    with ThreadPoolExecutor(4) as pool:
        # each thread has one event of each payload, about at the same time
        parts = [sorted((r for r in rows if r.part == n), key=lambda r: r.origin) for n in range(4)]
        list(pool.map(store_all, parts))
    assert _told(connection) == {n: {Verdict.STORED} for n in range(payloads)}
