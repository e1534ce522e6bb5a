"""How fast persist writes, against a raw COPY of the same rows; and what broken payloads cost.

    python -m benchmarks.persist_rate --events 100000

A real PostgreSQL, one connection, rounds in turn so that all of them meet the same machine. What
persist does to a record in Python (`make`) counts for persist and not for COPY. enrich has no
store: its function is called on payloads in memory.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median

import orjson
import psycopg

from benchmarks.fold_rate import events
from clients.kafka.records import Payload, Record
from clients.postgres import schema, store
from clients.postgres.outbox import header_rows
from local_stack.run.stack import Stack
from shared.events.envelope import Position, event_value
from shared.flow import FLOW
from shared.model import Fields
from stream_jobs.enrich.enrich_payload import enricher
from stream_jobs.persist.rows import EventRow, RowMaker
from stream_jobs.persist.table_writer import Written
from stream_jobs.persist.waiting_rows import RowRules
from stream_jobs.persist.writer import EventStore, chunks

ROUNDS = 5
POISON_EVERY = 100  # 10,000 per million
_TIME = "2026-01-01 00:00:00+00"
_ids = count(1)
RULES = RowRules.of(FLOW, age_max_s=7 * 86_400.0, rows_of_line_max=1_000, rows_max=200_000)


def log(number: int, *, poison: bool) -> list[Record]:
    """Records of an event topic that were never there before."""
    records = []
    for record in events(number, 10_000):
        at = next(_ids)
        broken = poison and at % POISON_EVERY == 0
        value = b'{"value": 21.5, "unit":' if broken else event_value(record._replace(id=f"e{at}"))
        place = Position("event.reading.v1", 0, at)
        records.append(Record(place, record.entity_id.encode(), value, []))
    return records


def persist(url: str, maker: RowMaker, records: list[Record]) -> Written:
    writer = EventStore(url, rules=RULES)
    try:
        return sum((writer.write(chunk) for chunk in chunks(map(maker.make, records))), Written())
    finally:
        writer.close()


def copy(connection: store.Connection, rows: list[EventRow], *, with_outbox: bool) -> None:
    """As raw as it gets: the same columns and indexes, no question asked."""
    with connection.transaction(), connection.cursor() as cursor:
        columns = "event_id, type, entity_id, event_time, arrived_at, origin, position, data"
        with cursor.copy(f"COPY headrace.event ({columns}) FROM STDIN".encode()) as target:
            for row in rows:
                target.write_row((row.event_id, row.type, row.entity_id, _TIME, _TIME,
                                  row.origin, str(row.record.position), row.data))  # fmt: skip
        if with_outbox:
            into = b"COPY headrace.outbox (topic, key, value, headers) FROM STDIN"
            with cursor.copy(into) as target:
                for row in rows:
                    value = orjson.dumps(
                        {"row_key": 1, "event_id": row.event_id, "type": row.type,
                         "entity_id": row.entity_id, "stored_at": "2026-01-01T00:00:00.000Z"}
                    )  # fmt: skip
                    target.write_row((row.completion_topic, row.entity_id.encode(), value,
                                      json.dumps(header_rows(row.completion_headers))))  # fmt: skip


class Master:
    def find(self, table: str, _key: str) -> Fields | None:
        if table == "device":
            return {"device_id": "d", "area": "area-01", "model": "thermo-c", "attributes": {}}
        return {"model": "thermo-c", "value_field": "value", "unit": "celsius",
                "scale": 1.0, "offset": 0.0}  # fmt: skip


def payloads(number: int, *, poison: bool) -> list[Payload]:
    made = []
    for at in range(number):
        broken = poison and at % POISON_EVERY == 0
        value = b'{"value": 21.5, "seq"' if broken else b'{"value": 21.5, "seq": %d}' % at
        headers = [("ce_id", b"id-%d" % at), ("ce_type", b"telemetry")]
        made.append(Payload(Position("ingest.telemetry.v1", 0, at), b"device-0001", value, headers,
                            1_800_000_000_000))  # fmt: skip
    return made


def enrich_all(given: list[Payload]) -> int:
    enrich = enricher(FLOW)
    made = [enrich(payload, Master()) for payload in given]
    return sum(one[0].topic.startswith("event.") for one in made)


def rate(number: int, work: Callable[[], object]) -> float:
    begun_s = time.perf_counter()
    work()
    return number / (time.perf_counter() - begun_s)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=100_000, help="a round")
    number = options.parse_args().events
    maker = RowMaker.of(FLOW)
    rates: dict[str, list[float]] = {}

    def measure(name: str, work: Callable[[], object]) -> None:
        rates.setdefault(name, []).append(rate(number, work))

    clean, poisoned = payloads(number, poison=False), payloads(number, poison=True)
    assert enrich_all(clean) == number
    assert enrich_all(poisoned) == number - number // POISON_EVERY
    for _ in range(ROUNDS):
        measure("enrich", lambda: enrich_all(clean))
        measure("enrich, 1 % broken", lambda: enrich_all(poisoned))
    with (
        tempfile.TemporaryDirectory() as folder,
        Stack(Path(folder), random_ports=True, services=("postgres",)) as stack,
    ):
        url = stack.postgres_url
        schema.migrate(url)
        with psycopg.connect(url, autocommit=True) as connection:

            def emptied() -> None:
                connection.execute("TRUNCATE headrace.event, headrace.outbox, headrace.parked")
                connection.execute("CHECKPOINT")

            for _ in range(ROUNDS):
                for name, poison in (("persist", False), ("persist, 1 % broken", True)):
                    records = log(number, poison=poison)
                    emptied()
                    measure(name, lambda records=records: persist(url, maker, records))
                    stored = connection.execute(
                        "SELECT (SELECT count(*) FROM headrace.event), "
                        "(SELECT count(*) FROM headrace.parked)"
                    ).fetchone()
                    parked = number // POISON_EVERY if poison else 0
                    assert stored == (number - parked, parked), stored
                for name, with_outbox in (("COPY, both tables", True), ("COPY, events", False)):
                    rows = [maker.make(record) for record in log(number, poison=False)]
                    events_only = [row for row in rows if isinstance(row, EventRow)]
                    emptied()
                    measure(
                        name,
                        lambda rows=events_only, both=with_outbox: copy(
                            connection, rows, with_outbox=both
                        ),
                    )
    middle = {name: median(found) for name, found in rates.items()}
    for name, found in rates.items():
        print(f"{name:22} {middle[name]:9,.0f} a second  ({min(found):,.0f} to {max(found):,.0f})")
    for one, other in (
        ("persist", "COPY, both tables"),
        ("persist", "COPY, events"),
        ("persist, 1 % broken", "persist"),
        ("enrich, 1 % broken", "enrich"),
    ):
        print(f"{one} / {other}: {middle[one] / middle[other]:.3f}")


if __name__ == "__main__":
    main()
