"""A shop's own database, with a role that may only read, a topic that somebody else fills, and the
reader of a table."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import orjson
import psycopg
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import SecretStr

from clients.kafka.create_topics import ensure_topics
from clients.postgres.master_rows import MasterRows
from clients.postgres.source_book import refusals
from clients.postgres.store import Connection
from local_stack.run.stack import Stack
from shared.model import Table
from shared.settings import JobSettings
from shared.topic_names import JOB_STATUS_TOPIC, status_of_source
from stream_jobs.master_sources import reader
from tests.kafka_log import eventually, read_topic
from tests.stream_jobs.sourced_flow import FLOW


class Shop:
    def __init__(self, parts: Stack) -> None:
        self.name = f"shop_{uuid4().hex[:8]}"
        self._server = parts.postgres_url
        self._as_owner(f"CREATE DATABASE {self.name}")
        self.url = make_conninfo(self._server, dbname=self.name)
        self.db = psycopg.connect(self.url, autocommit=True)
        self.do("""
            CREATE SCHEMA stock;
            CREATE TABLE stock.price (
                article text PRIMARY KEY, cents int, name text, supplier text DEFAULT 'secret',
                gone boolean NOT NULL DEFAULT false,
                updated_at timestamptz NOT NULL DEFAULT now()
            )
        """)
        self.do(f"CREATE ROLE {self.name} LOGIN; GRANT USAGE ON SCHEMA stock TO {self.name}")
        self.do(f"GRANT SELECT ON ALL TABLES IN SCHEMA stock TO {self.name}")

    @property
    def reader_url(self) -> str:
        """Of a role that may read, and nothing else."""
        parts = conninfo_to_dict(self.url)
        password = parts.pop("password", None)
        self._as_owner(f"ALTER ROLE {self.name} PASSWORD 'only-reads'")
        del password
        kept = {name: value for name, value in parts.items() if name != "passfile"}
        return make_conninfo(**{**kept, "user": self.name, "password": "only-reads"})

    def do(self, statement: str, *values: object) -> None:
        self.db.execute(statement.encode(), values or None)

    def price(self, article: str, cents: int | None, **more: Any) -> None:
        fields = {"article": article, "cents": cents, **more}
        names, places = ", ".join(fields), ", ".join(["%s"] * len(fields))
        at = "excluded.updated_at" if "updated_at" in more else "now()"
        changed = [f"{name} = excluded.{name}" for name in fields if name != "updated_at"]
        self.do(
            f"INSERT INTO stock.price ({names}) VALUES ({places}) ON CONFLICT (article) "
            f"DO UPDATE SET {', '.join(changed)}, updated_at = {at}",
            *fields.values(),
        )

    def close_to_all(self) -> None:
        self._as_owner(f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS false")
        self._as_owner(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{self.name}'"
        )

    def open_again(self) -> None:
        self._as_owner(f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS true")

    def _as_owner(self, statement: str) -> None:
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture
def shop(parts: Stack) -> Iterator[Shop]:
    shop = Shop(parts)
    yield shop
    shop.db.close()


@pytest.fixture
def shop_settings(job_settings: JobSettings, shop: Shop) -> JobSettings:
    return job_settings.model_copy(
        update={"master_databases": {"shop": SecretStr(shop.reader_url)}}
    )


class Topic:
    def __init__(self, settings: JobSettings) -> None:
        self.name = f"shop.tariff_{uuid4().hex[:8]}"
        self._admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap})
        self._producer = Producer({"bootstrap.servers": settings.kafka_bootstrap})

    def make(self) -> None:
        compacted = {"cleanup.policy": "compact,delete"}
        self._admin.create_topics([NewTopic(self.name, 3, 1, config=compacted)])[self.name].result()

    def make_anew(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result()
        eventually(lambda: self.name not in self._admin.list_topics(timeout=10).topics)
        self.make()

    def cut(self) -> None:
        """All that is there now is gone."""
        ends = [TopicPartition(self.name, number, -1) for number in range(3)]
        for done in self._admin.delete_records(ends).values():
            done.result()

    def send(self, zone: str, op: str, cents: Any = None, *, wrap: bool = False) -> None:
        row = {"zone": zone, "cents": cents, "owner": "somebody"}
        envelope = {
            "before": row if op == "d" else None,
            "after": None if op == "d" else row,
            "op": op,
            "ts_ms": 1,
            "source": {"connector": "postgresql"},
        }
        key: Any = {"zone": zone}
        value: Any = envelope
        if wrap:
            key, value = ({"schema": {}, "payload": one} for one in (key, value))
        self.put(orjson.dumps(key), orjson.dumps(value))
        if op == "d":
            self.put(orjson.dumps(key), None)

    def put(self, key: bytes | None, value: bytes | None) -> None:
        self._producer.produce(self.name, value, key)

    def flush(self) -> None:
        assert self._producer.flush(60) == 0


@pytest.fixture
def topic(job_settings: JobSettings) -> Iterator[Topic]:
    ensure_topics(FLOW, job_settings)
    topic = Topic(job_settings)
    topic.make()
    yield topic
    topic.flush()


class Known:
    """What is known of a table here."""

    def __init__(self, connection: Connection, table: str) -> None:
        self._connection = connection
        self._table = table

    def rows(self) -> dict[str, Any]:
        return MasterRows(self._connection).all(self._table)

    def cents(self) -> dict[str, int]:
        return {key: row["cents"] for key, row in self.rows().items()}

    def becomes(self, cents: dict[str, int]) -> None:
        def holds() -> bool:
            return self.cents() == cents

        try:
            eventually(holds, every_s=0.05)
        except AssertionError:
            assert self.cents() == cents
            raise

    def refused(self) -> dict[str, str]:
        return {one.key: one.reason for one in refusals(self._connection, self._table, 1000)}

    def refuses(self, expected: dict[str, str]) -> None:
        """Each with this text in its reason."""

        def holds() -> bool:
            found = self.refused()
            return found.keys() == expected.keys() and all(
                text in found[key] for key, text in expected.items()
            )

        eventually(holds, every_s=0.05)

    def revisions(self) -> dict[str, int]:
        page = MasterRows(self._connection).page(self._table, 100_000)
        return {row.key: row.revision for row in page}


@pytest.fixture
def known(connection: Connection) -> Callable[[str], Known]:
    return lambda table: Known(connection, table)


@pytest.fixture
def prices(known: Callable[[str], Known]) -> Known:
    return known("price")


@pytest.fixture
def tariffs(known: Callable[[str], Known]) -> Known:
    return known("tariff")


@contextmanager
def reading(settings: JobSettings, table: Table) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=reader.run, args=(settings, table, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


def said(settings: JobSettings, table: str = "price") -> dict[str, Any]:
    """What the reader of the table last said of itself."""
    records = read_topic(settings.kafka_bootstrap, JOB_STATUS_TOPIC)
    key = status_of_source(table).encode()
    words = [record.value for record in records if record.key == key]
    found: dict[str, Any] = orjson.loads(words[-1] or b"{}") if words else {}
    return found
