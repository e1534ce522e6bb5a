"""All that has come out of what was sent, read from the topics, PostgreSQL and `/state`."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import orjson
import psycopg
from confluent_kafka import Consumer, KafkaError, TopicPartition

from local_stack.verbs.ledger import from_database
from tests.faults.whole import sample

Place = tuple[str, int, int]  # topic, partition, offset
Entity = tuple[str, str]  # its kind and its id
State = dict[str, Any]


class Record(NamedTuple):
    place: Place
    at_ms: int
    key: bytes
    value: bytes
    headers: dict[str, str]

    @property
    def id(self) -> str:
        return self.headers["ce_id"]

    @property
    def digest(self) -> str:
        return sha256(self.value).hexdigest()


class EventRow(NamedTuple):
    event_id: str
    row_key: int
    type: str
    entity_id: str
    time_ms: int
    arrived_ms: int
    data: dict[str, Any]


class Books(NamedTuple):
    ingest: list[Record]  # each list in log order
    events: list[Record]
    lanes: list[Record]
    gates: list[Record]
    completions: list[Record]
    snapshots: list[Record]
    rows: list[EventRow]
    stored: dict[Entity, tuple[int, State]]
    shown: dict[Entity, State]
    outbox: int
    ledger: dict[str, int]  # the product's own, as `headrace ledger` tells it
    set_aside: Sequence[bytes] = ()  # what the gateway's spool could not bring to Kafka
    tells_of_set_aside: bool = False


def read_books(
    state_dir: Path, bootstrap: str, postgres_url: str, gateway_urls: Sequence[str]
) -> Books:
    snapshots = _read(bootstrap, [*sample.STATES])
    with psycopg.connect(postgres_url, connect_timeout=10) as connection:
        return Books(
            ingest=_read(bootstrap, sample.INGEST),
            events=_read(bootstrap, sample.EVENTS),
            lanes=_read(bootstrap, sample.LANES),
            gates=_read(bootstrap, [sample.GATES]),
            completions=_read(bootstrap, sample.COMPLETIONS),
            snapshots=snapshots,
            rows=[EventRow(*row) for row in connection.execute(_ROWS)],
            stored={(e, i): (v, s) for e, i, v, s in connection.execute(_STATES)},
            shown=_shown(gateway_urls, {entity_of(record) for record in snapshots}),
            outbox=_one(connection.execute("SELECT count(*) FROM headrace.outbox")),
            ledger=_ledger(state_dir),
            set_aside=[
                path.read_bytes()
                for node in (state_dir, *state_dir.glob("gateway-*"))
                for path in set_aside_folder(node).glob("*")
            ],
            tells_of_set_aside=any(map(_tells_of_set_aside, gateway_urls)),
        )


def shown_and_published(bootstrap: str, gateway_urls: Sequence[str]) -> list[tuple[State, State]]:
    """Each state that is shown beside the snapshot of the same version."""
    snapshots = _read(bootstrap, [*sample.STATES])
    published = {(entity_of(r), state_of(r)[0]): state_of(r)[1] for r in snapshots}
    entities = {entity_of(record) for record in snapshots}
    return [
        (said["state"], published[entity, said["version"]])
        for url in gateway_urls
        for entity, said in _answers(url, entities).items()
        if (entity, said["version"]) in published
    ]


def set_aside_folder(state_dir: Path) -> Path:
    return state_dir / "spool" / "set-aside"


def _tells_of_set_aside(gateway_url: str) -> bool:
    health = httpx.get(f"{gateway_url}/health", timeout=20, trust_env=False).json()
    return "set aside" in health["checks"]["spool:depth"][0].get("output", "")


def entity_of(snapshot: Record) -> Entity:
    return sample.STATES[snapshot.place[0]], snapshot.key.decode()


def state_of(snapshot: Record) -> tuple[int, State]:
    """Version and state."""
    state = orjson.loads(snapshot.value)
    return state.pop("_meta")["version"], state


_ROWS = """
    SELECT event_id, row_key, type, entity_id,
           (extract(epoch FROM event_time) * 1000)::bigint,
           (extract(epoch FROM arrived_at) * 1000)::bigint, data
    FROM headrace.event ORDER BY row_key
"""
_STATES = "SELECT entity, id, version, state FROM headrace.entity_state WHERE NOT deleted"


def clocks_of(snapshot: Record) -> tuple[int, int]:
    """How many events it says came late, and of how many the device's clock was off."""
    meta = orjson.loads(snapshot.value)["_meta"]
    return meta.get("late", 0), meta.get("clock_off", 0)


def _one(cursor: psycopg.Cursor[Any]) -> int:
    row = cursor.fetchone()
    assert row is not None
    return int(row[0])


def _ledger(state_dir: Path) -> dict[str, int]:
    found = from_database(None, None, time.time_ns() // 1_000_000, state_dir)
    return {term: found[term] for term in sample.TERMS}


def _shown(gateway_urls: Sequence[str], entities: set[Entity]) -> dict[Entity, State]:
    """Where gateways differ, all that they say: no state is like that."""
    first, *others = (
        {entity: said["state"] for entity, said in _answers(url, entities).items()}
        for url in gateway_urls
    )
    for other in others:
        for entity in entities:
            if other.get(entity) != first.get(entity):
                first[entity] = {"one": first.get(entity), "another": other.get(entity)}
    return first


def _answers(gateway_url: str, entities: set[Entity]) -> dict[Entity, dict[str, Any]]:
    limits = httpx.Limits(max_connections=8, max_keepalive_connections=8)
    with (
        httpx.Client(base_url=gateway_url, timeout=20, limits=limits, trust_env=False) as http,
        ThreadPoolExecutor(8) as pool,
    ):
        paths = {entity: f"/state/{entity[0]}/{entity[1]}" for entity in entities}
        answers = zip(paths, pool.map(http.get, paths.values()), strict=True)
        return {entity: a.json() for entity, a in answers if a.status_code == 200}


def _read(bootstrap: str, topics: list[str]) -> list[Record]:
    """From their first records to what is their end now."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "rig",
        "log_level": 0,
        "fetch.wait.max.ms": 20,  # or the broker keeps an end to itself for half a second
    }
    consumer = Consumer(
        {**settings, "enable.auto.commit": False, "enable.partition.eof": True, "check.crcs": True}
    )
    known = consumer.list_topics(timeout=20).topics
    unread = {(topic, number) for topic in topics for number in known[topic].partitions}
    consumer.assign([TopicPartition(topic, number, 0) for topic, number in unread])
    records: list[Record] = []
    while unread:
        for message in consumer.consume(10_000, 0.05):
            error = message.error()
            topic, partition = message.topic() or "", message.partition() or 0
            if error is None:
                headers = {k: v.decode(errors="replace") for k, v in message.headers() or []}
                place = topic, partition, message.offset() or 0
                at_ms = message.timestamp()[1]
                records.append(
                    Record(place, at_ms, message.key() or b"", message.value() or b"", headers)
                )
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard((topic, partition))
            else:
                raise ConnectionError(str(error))
    consumer.close()
    return sorted(records)
