"""How long `GET /state/device?where=…` looks for its page in a view of many states, and how long it
takes to index them. Without Kafka: the view is filled here. How many events made the states does
not matter, for the view has the newest state of each.

    PYTHONPATH=. python -m benchmarks.state_lists --states 1000000
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import orjson

from gateway.lists.list_request import asked_of
from gateway.lists.reader import ListReader
from gateway.state_view.records import Changes, Row
from gateway.state_view.store import ViewStore, view_path
from shared.flow import FLOW
from shared.sample_domain.device import initial
from shared.tables.indexed_fields import indexed_states
from shared.timestamps import now_ms

(DEVICES, *_) = indexed_states(FLOW.with_state)
AREAS = 200
QUESTIONS = {
    "one id of all": {"where": 'id = "device-0000077"'},
    "an area, by id": {"where": 'area = "area-{area:03}"'},
    "an area, the hottest first": {"where": 'area = "area-{area:03}"', "sort": "-value"},
    "all, the hottest first": {"sort": "-value"},
    "a span of values": {"where": "value > {value} and value <= {value}.5", "sort": "value"},
    "few of all, by another field": {"where": 'status = "ALARM"', "sort": "area"},
    "most of all, by another field": {"where": 'status != "ALARM"', "sort": "-value"},
    "two that many have": {
        "where": 'status = "ACTIVE" and connection = "online"',
        "sort": "-value",
    },
    # no index is of use: it looks at as many as one request may, and says where to go on
    "what nobody is": {
        "where": 'status != "IDLE" and connection != "online" and value < 20',
        "sort": "value",
    },
}


def rows_of(count: int, chance: random.Random) -> Iterator[Row]:
    # what a snapshot of the sample has beside its fields
    rings = {"reading": "x" * 400}
    for number in range(count):
        key = f"device-{number:07}"
        value = chance.random() * 100
        is_online = chance.random() < 0.9
        state = {
            **initial(key),
            "area": f"area-{chance.randrange(AREAS):03}",
            "value": value,
            "status": "ALARM" if value > 99.9 else "ACTIVE" if value > 20 else "IDLE",
            "connection": "online" if is_online else "offline",
            "last_seen_ms": 1_700_000_000_000 + chance.randrange(10**9),
            "_meta": {"version": 3, "event_time_ms": None, "fold": "abc", "rings": rings},
        }
        yield Row(DEVICES.topic, key.encode(), orjson.dumps(state), 3, 5, 0, number)


def fill(folder: Path, count: int) -> None:
    store = ViewStore(view_path(folder))
    store.begin_topic(DEVICES.topic, "an id")
    changes = Changes()
    for row in rows_of(count, random.Random(1)):
        changes.put(row)
        if len(changes.rows) == 10_000:
            store.apply(changes)
            changes = Changes()
    store.apply(changes)
    store.caught_up([DEVICES.topic], now_ms())
    store.close()


def index(folder: Path) -> None:
    path = view_path(folder)
    before, begun_s, cpu_s = path.stat().st_size, time.monotonic(), time.process_time()
    store = ViewStore(path, (DEVICES,))
    while store.index_more():
        pass
    store.close()
    more = path.stat().st_size - before
    print(
        f"indexed by {len(DEVICES.fields)} fields in {time.monotonic() - begun_s:.1f} s, "
        f"{time.process_time() - cpu_s:.1f} s of CPU; {before >> 20} MiB of states, "
        f"{more >> 20} MiB of indexes"
    )


def change(folder: Path, count: int, chance: random.Random) -> None:
    """As the writer is handed them: readings, in batches of a second or so."""
    known = [*rows_of(count, random.Random(1))]
    for indexed in ((DEVICES,), ()):
        store = ViewStore(view_path(folder), indexed)
        chosen, changes = chance.sample(known, k=min(count, 5_000)), Changes()
        for row in chosen:
            state = orjson.loads(row.value)
            state["value"] += chance.random()
            state["last_seen_ms"] += 1_000
            state["_meta"]["version"] = 4
            changes.put(row._replace(value=orjson.dumps(state), version=4))
        begun_s = time.process_time()
        store.apply(changes)
        took_us = (time.process_time() - begun_s) / len(chosen) * 1e6
        store.close()
        names = ", ".join(field.name for field in DEVICES.fields) if indexed else "nothing"
        print(f"a changed state costs the writer {took_us:.0f} µs of CPU with {names} indexed")


async def ask(folder: Path, rounds: int) -> None:
    reader, chance = ListReader(folder), random.Random(2)
    print("| question | states | p50 ms | p99 ms | CPU ms |\n|---|---|---|---|---|")
    for name, question in QUESTIONS.items():
        took_s, found, cpu_s = [], 0, time.process_time()
        for _ in range(rounds):
            given = [
                (key, its.format(area=chance.randrange(AREAS), value=chance.randrange(99)))
                for key, its in question.items()
            ]
            begun_s = time.perf_counter()
            page = await reader.page(asked_of(DEVICES, "", None, given))
            took_s.append(time.perf_counter() - begun_s)
            assert page.is_indexed
            found = len(page.states)
        cpu_ms = (time.process_time() - cpu_s) / rounds * 1e3
        p99 = statistics.quantiles(took_s, n=100)[98] * 1e3
        p50 = statistics.median(took_s) * 1e3
        print(f"| {name} | {found} | {p50:.1f} | {p99:.1f} | {cpu_ms:.1f} |")
    await reader.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="keeps the view there, and uses one that is")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        if not view_path(folder).exists():
            fill(folder, given.states)
            index(folder)
        if given.rounds:
            asyncio.run(ask(folder, given.rounds))
            change(folder, given.states, random.Random(3))


if __name__ == "__main__":
    main()
