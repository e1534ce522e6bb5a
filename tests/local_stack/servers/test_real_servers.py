"""Real Kafka and PostgreSQL: they start, survive, keep their data and leave nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from clients.postgres.store import connect
from local_stack.machine.paths import CHECKOUT
from local_stack.run.stack import Stack
from local_stack.run.stack_file import read_status
from local_stack.run.tail_topic import last_records, shown
from local_stack.terminal.errors import StackError
from local_stack.verbs.sql import Rows, read_only
from tests import kafka_log

pytestmark = pytest.mark.stack

SERVERS = ("kafka", "postgres")


eventually = partial(kafka_log.eventually, within_s=90, every_s=0.1)


def servers(state_dir: Path) -> Stack:
    return Stack(state_dir, random_ports=True, services=SERVERS)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with servers(tmp_path_factory.mktemp("state")) as stack:
        yield stack


def test_postgres_is_18_and_has_our_database(stack: Stack) -> None:
    with psycopg.connect(stack.postgres_url) as connection:
        row = connection.execute(
            "SELECT current_database(), current_setting('server_version')"
        ).fetchone()
    assert row is not None
    assert row[0] == "headrace"
    assert row[1].startswith("18.")


def test_kafka_makes_no_topic_by_accident(stack: Stack) -> None:
    admin = AdminClient({"bootstrap.servers": stack.kafka_bootstrap})
    admin.list_topics("never-declared", timeout=10)
    time.sleep(0.5)
    assert "never-declared" not in admin.list_topics(timeout=10).topics


def test_a_held_server_is_down_and_comes_back(stack: Stack) -> None:
    stack.hold("postgres")
    assert not read_status(stack.state_dir)["ready"]
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(stack.postgres_url, connect_timeout=2)
    stack.release("postgres")
    psycopg.connect(stack.postgres_url, connect_timeout=30).close()
    assert read_status(stack.state_dir)["ready"]


def test_a_killed_broker_comes_back_on_its_port_with_what_it_acknowledged(stack: Stack) -> None:
    write(stack)
    before = stack.pid("kafka")
    assert before is not None
    os.kill(before, signal.SIGKILL)
    eventually(lambda: stack.pid("kafka") not in (None, before))
    eventually(lambda: bool(read_status(stack.state_dir)["ready"]))
    assert read(stack) == (b"kept", "kept")


def test_the_last_records_of_a_topic_are_shown_with_their_headers(stack: Stack) -> None:
    admin = AdminClient({"bootstrap.servers": stack.kafka_bootstrap})
    admin.create_topics([NewTopic("looked-at", 2)])["looked-at"].result()
    eventually(lambda: _is_empty(stack, "looked-at"))
    producer = Producer({"bootstrap.servers": stack.kafka_bootstrap})
    for n in range(5):
        value = f'{{"n": {n}}}'
        producer.produce("looked-at", value, b"k", n % 2, timestamp=1000 + n, headers={"why": "x"})
    assert producer.flush(60) == 0
    last = last_records(stack.kafka_bootstrap, "looked-at", 3)
    assert [record.value for record in last] == [b'{"n": 2}', b'{"n": 3}', b'{"n": 4}']
    assert shown(last[-1]).splitlines() == [
        "looked-at[0]@2  1970-01-01T00:00:01.004Z  key k",
        "  why: x",
        '  {"n": 4}',
    ]
    with pytest.raises(StackError, match="no topic named nope") as error:
        last_records(stack.kafka_bootstrap, "nope", 3)
    assert "looked-at" in error.value.fix


def _is_empty(stack: Stack, topic: str) -> bool:
    """Of one that was just made: the broker may know it, and its leaders, a moment later."""
    try:
        found = last_records(stack.kafka_bootstrap, topic, 5)
    except StackError:
        return False
    assert found == []
    return True


def test_sql_reads_and_changes_nothing(stack: Stack) -> None:
    def ask(statement: str) -> tuple[list[str], Rows]:
        with connect(stack.postgres_url, "test") as connection:
            return read_only(connection, statement)

    assert ask("SELECT 1 AS one, '%' AS percent") == (["one", "percent"], [(1, "%")])
    with pytest.raises(StackError, match="only reads"):
        ask("CREATE TABLE never (n int)")
    with pytest.raises(StackError, match="multiple commands"):
        ask("SET default_transaction_read_only = off; CREATE TABLE never (n int)")
    with pytest.raises(StackError, match='"never" does not exist'):
        ask("SELECT * FROM never")
    with pytest.raises(StackError, match="COPY cannot"):
        ask("COPY pg_class TO STDOUT")


def test_data_survives_a_restart_on_other_ports(tmp_path: Path) -> None:
    with servers(tmp_path) as stack:
        first_port = stack.kafka_bootstrap
        write(stack)
    assert not read_status(tmp_path)["ready"]
    with servers(tmp_path) as stack:
        assert stack.kafka_bootstrap != first_port
        assert read(stack) == (b"kept", "kept")


def write(stack: Stack) -> None:
    admin = AdminClient({"bootstrap.servers": stack.kafka_bootstrap})
    admin.create_topics([NewTopic("kept", 1)])["kept"].result()
    producer = Producer({"bootstrap.servers": stack.kafka_bootstrap})
    producer.produce("kept", b"kept")
    assert producer.flush(60) == 0
    with psycopg.connect(stack.postgres_url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 'kept' AS word")


def read(stack: Stack) -> tuple[bytes | None, str]:
    consumer = Consumer({"bootstrap.servers": stack.kafka_bootstrap, "group.id": "reader"})
    consumer.assign([TopicPartition("kept", 0, 0)])
    message = consumer.poll(60)
    consumer.close()
    with psycopg.connect(stack.postgres_url) as connection:
        row = connection.execute("SELECT word FROM kept").fetchone()
    assert message is not None
    assert row is not None
    return message.value(), row[0]


LAUNCHER = """
import signal, sys
from pathlib import Path
from local_stack.run.stack import Stack
stack = Stack(Path(sys.argv[1]), random_ports=True, services=("kafka", "postgres"))
stack.start()
print(stack.pid("kafka"), stack.pid("postgres"), flush=True)
signal.pause()
"""


def test_a_hard_kill_of_the_launcher_leaves_no_orphan_and_no_obstacle(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LAUNCHER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT) as launcher:
        assert launcher.stdout is not None
        lines = (line.split() for line in launcher.stdout)
        pids = next(words for words in lines if all(word.isdigit() for word in words))
        launcher.kill()
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    assert not read_status(tmp_path)["ready"]
    with servers(tmp_path) as stack:
        assert read_status(tmp_path)["ready"]
        psycopg.connect(stack.postgres_url).close()
