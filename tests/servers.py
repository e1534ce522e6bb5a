"""Real PostgreSQL and Kafka for the tests that are marked `stack`."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest
from confluent_kafka.admin import AdminClient
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from pydantic import SecretStr

from clients.postgres import schema, store
from local_stack.machine.job_environment import job_environment
from local_stack.run.stack import Stack
from shared.settings import JobSettings
from tests.kafka_log import eventually

_numbers = count(1)


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("parts")
    with Stack(folder, random_ports=True, services=("kafka", "postgres")) as stack:
        with psycopg.connect(stack.postgres_url, autocommit=True) as connection:
            # servers die here, machines do not: the disk may take its time
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        yield stack


@pytest.fixture(scope="session")
def another_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("kafka")
    with Stack(folder, random_ports=True, services=("kafka",)) as stack:
        yield stack


@pytest.fixture
def empty_kafka(another_kafka: Stack) -> Iterator[Stack]:
    """Without a topic, for a topic's name comes from the flow, and without a group."""
    yield another_kafka
    admin = AdminClient({"bootstrap.servers": another_kafka.kafka_bootstrap})
    made = [name for name in admin.list_topics(timeout=20).topics if not name.startswith("__")]
    for deleted in admin.delete_topics(made).values():
        deleted.result(30)
    groups = [group.group_id for group in admin.list_consumer_groups().result(30).valid]
    for deleted in admin.delete_consumer_groups(groups).values() if groups else ():
        deleted.result(30)
    eventually(lambda: not set(made) & set(admin.list_topics(timeout=20).topics))


@pytest.fixture(scope="session")
def spark_environment() -> dict[str, str]:
    return job_environment()


@pytest.fixture(scope="session")
def migrated(parts: Stack) -> str:
    """A database with the schema in it, of which each test gets a copy."""
    schema.migrate(_new_database(parts, "migrated"))
    return "migrated"


@pytest.fixture
def postgres_url(parts: Stack, migrated: str) -> str:
    """A fresh database with the schema in it, as superuser."""
    return _new_database(parts, f"test_{next(_numbers)}", f"TEMPLATE {migrated}")


def _new_database(parts: Stack, name: str, like: str = "") -> str:
    with psycopg.connect(parts.postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} {like}".encode())
    return make_conninfo(parts.postgres_url, dbname=name)


def in_database_of(url: str, other: str) -> str:
    return make_conninfo(other, dbname=str(conninfo_to_dict(url)["dbname"]))


@pytest.fixture
def connection(postgres_url: str) -> Iterator[store.Connection]:
    with store.connect(postgres_url, "test") as connection:
        yield connection


@pytest.fixture
def job_settings(parts: Stack, postgres_url: str, tmp_path: Path) -> JobSettings:
    return JobSettings(
        kafka_bootstrap=parts.kafka_bootstrap,
        postgres_url=SecretStr(postgres_url),
        state_dir=tmp_path,
        partitions=4,
    )
