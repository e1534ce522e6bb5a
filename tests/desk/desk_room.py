"""A desk on a real broker and PostgreSQL, with two operators."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import psycopg
import pytest
from confluent_kafka import Producer
from fastapi import FastAPI
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from clients.kafka.create_topics import ensure_topics
from clients.postgres import schema, store
from clients.postgres.grants import DESK
from clients.postgres.outbox import header_pairs
from clients.postgres.store import Connection
from desk.app import create_app
from desk.letters import indexer, redrive
from desk.letters.index_store import LetterIndex
from desk.letters.selection import Selection
from desk.letters.service import Desk
from desk.letters.topics import LetterLog
from local_stack.run.stack import Stack
from shared.events import redelivery
from shared.events.envelope import Header, Position, failure_headers
from shared.flow import FLOW
from shared.settings import GatewaySettings, JobSettings
from stream_jobs.persist.writer import EventStore

# of `event` it is told in the journal what was removed
TABLES = ("letter", "redrive", "letter_audit", "event", "ledger_journal", "outbox")


class Room:
    """A desk with two operators, who see the letters that were parked in this test alone."""

    def __init__(
        self,
        settings: JobSettings,
        log: LetterLog,
        ann: Connection,
        bob: Connection,
        admin: Connection,
    ):
        self.settings, self.admin = settings, admin
        self.book = LetterIndex(ann)
        self._log, self._reading = log, LetterLog(settings)
        self._rows = EventStore(settings.postgres_url.get_secret_value())
        self.ann = redrive.Redriver(FLOW, self.book, self._reading, self._rows)
        self.bob = redrive.Redriver(FLOW, LetterIndex(bob), self._reading, self._rows)
        self.desk = Desk(settings, self.book, self._reading)
        self._unread = 0

    def close(self) -> None:
        self._reading.close()
        self._rows.close()

    def park(
        self,
        offset: int,
        value: bytes | None = b"{",
        attempt: int = 0,
        cause: str = "not_json",
        topic: str = "ingest.telemetry.v1",
        own: tuple[Header, ...] = (),
        key: bytes = b"device-0001",
    ) -> None:
        origin = Position(topic, 0, offset)
        headers = redelivery.headers_of(
            own, redelivery.FirstArrival(origin, 1_700_000_000_000, attempt)
        )
        headers = failure_headers(headers, "enrich", origin, cause, "why")
        self.write("dlq.enrich.v1", key, value, headers)

    def write(self, topic: str, key: bytes, value: bytes | None, headers: list[Header]) -> None:
        producer = Producer(
            {**self.settings.kafka.for_librdkafka(), "message.max.bytes": 9_000_000}
        )
        producer.produce(topic, value, key, headers=list(headers))
        producer.flush(60)
        self._unread += 1

    def index(self) -> None:
        while self._unread:
            self._unread -= indexer.read_on(FLOW, self._log, self.book, 0.2)

    def app(self, **settings: Any) -> FastAPI:
        return create_app(self.gateway_settings(**settings))

    def ask(self, steps: Callable[[httpx.AsyncClient], Awaitable[None]], **settings: Any) -> None:
        """As a program or a browser of this machine does."""

        async def asks() -> None:
            transport = httpx.ASGITransport(self.app(**settings))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                await steps(http)

        asyncio.run(asks())

    def gateway_settings(self, **others: Any) -> GatewaySettings:
        return GatewaySettings(
            kafka_bootstrap=self.settings.kafka_bootstrap,
            postgres_url=self.settings.postgres_url,
            state_dir=self.settings.state_dir,
            **others,
        )

    def ids(self, **selection: str) -> list[str]:
        rows, _ = self.book.page(Selection(**selection), 1000)  # type: ignore[arg-type]
        return [row["id"] for row in rows]

    def only(self) -> dict[str, object]:
        (row,), _ = self.book.page(Selection(), 10)
        return row

    def sent(self) -> list[tuple[str, bytes, list[Header]]]:
        rows = self.book.connection.execute(
            "SELECT topic, value, headers FROM headrace.outbox WHERE topic NOT LIKE 'master.%%'"
            " ORDER BY seq",
            (),
        )
        return [
            (topic, bytes(value or b""), header_pairs(headers)) for topic, value, headers in rows
        ]


@pytest.fixture(scope="session")
def desk_settings(parts: Stack, tmp_path_factory: pytest.TempPathFactory) -> JobSettings:
    with psycopg.connect(parts.postgres_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE desk")
    schema.migrate(make_conninfo(parts.postgres_url, dbname="desk"))
    settings = JobSettings(
        kafka_bootstrap=parts.kafka_bootstrap,
        postgres_url=SecretStr(make_conninfo(parts.postgres_url_of(DESK), dbname="desk")),
        state_dir=tmp_path_factory.mktemp("desk"),
    )
    ensure_topics(FLOW, settings)
    return settings


@pytest.fixture(scope="session")
def desk_log(desk_settings: JobSettings) -> Iterator[LetterLog]:
    with LetterLog(desk_settings) as log:
        log.go_on_from({})
        while log.read_on(1.0)[0]:  # letters of other tests
            pass
        yield log


@pytest.fixture
def room(parts: Stack, desk_settings: JobSettings, desk_log: LetterLog) -> Iterator[Room]:
    """With a desk's own rights."""
    url = desk_settings.postgres_url.get_secret_value()
    with (
        store.connect(url, "ann") as ann,
        store.connect(url, "bob") as bob,
        store.connect(make_conninfo(parts.postgres_url, dbname="desk"), "admin") as admin,
    ):
        for table in TABLES:
            admin.execute(f"TRUNCATE headrace.{table} CASCADE".encode())
        room = Room(desk_settings, desk_log, ann, bob, admin)
        yield room
        room.close()
