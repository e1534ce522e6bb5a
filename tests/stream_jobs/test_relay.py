import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from clients.kafka.create_topics import ensure_topics
from clients.postgres import store
from clients.postgres.outbox import Outbox, OutboxRow, header_pairs, header_rows
from local_stack.run.stack import Stack
from shared.errors import StoreAwayError
from shared.flow import FLOW
from shared.settings import JobSettings
from shared.topic_names import JOB_STATUS_TOPIC
from stream_jobs import relay
from stream_jobs.relay import Relay, removable
from tests.kafka_log import eventually


def _row(seq: int, topic: str) -> OutboxRow:
    return OutboxRow(seq, topic, b"k", b"v", [])


def test_what_follows_a_refusal_in_its_topic_is_sent_again() -> None:
    rows = [_row(1, "a"), _row(2, "b"), _row(3, "a"), _row(4, "b"), _row(5, "a")]
    assert removable(rows, {3}) == [1, 2, 4]
    assert removable(rows, set()) == [1, 2, 3, 4, 5]


def test_headers_of_any_bytes_survive_the_outbox() -> None:
    headers = [("ce_id", b"x"), ("ce_id", "ü".encode()), ("raw", b"\xff\x00"), ("nul", b"\x00")]
    assert header_pairs(json.loads(json.dumps(header_rows(headers)))) == headers


class _Heard:
    def __init__(self) -> None:
        self.states: list[str] = []

    def report(self, state: str, detail: str = "", **_numbers: Any) -> None:
        self.states.append(f"{state} {detail}".strip())


@pytest.fixture
def topic(job_settings: JobSettings) -> str:
    name = f"completion.test_{uuid4().hex[:8]}.v1"
    _create(job_settings, name)
    return name


def _create(settings: JobSettings, topic: str) -> None:
    ensure_topics(FLOW, settings)
    admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap})
    admin.create_topics([NewTopic(topic, 4, 1)])[topic].result()


def _put(connection: store.Connection, topic: str, count: int) -> None:
    connection.execute(
        """INSERT INTO headrace.outbox (topic, key, value, headers)
           SELECT %s, convert_to('k' || n %% 10, 'UTF8'), convert_to(n::text, 'UTF8'),
                  jsonb_build_array(jsonb_build_array('ce_id', 'id-' || n))
           FROM generate_series(1, %s) AS n""",
        (topic, count),
    )


def _read(settings: JobSettings, topic: str) -> list[tuple[str, int]]:
    """Ids and values, partition by partition."""
    consumer = Consumer({"bootstrap.servers": settings.kafka_bootstrap, "group.id": "test"})
    partitions = [TopicPartition(topic, p, 0) for p in range(4)]
    missing = sum(consumer.get_watermark_offsets(p, timeout=10)[1] for p in partitions)
    consumer.assign(partitions)
    found: list[tuple[int, str, int]] = []
    while len(found) < missing:
        for message in consumer.consume(missing, timeout=0.05):
            event_id = dict(message.headers() or [])["ce_id"]
            assert isinstance(event_id, bytes)
            found.append((message.partition() or 0, event_id.decode(), int(message.value() or 0)))
    consumer.close()
    return [(i, value) for _, i, value in sorted(found, key=lambda record: record[0])]


def _status_end(settings: JobSettings) -> int:
    consumer = Consumer({"bootstrap.servers": settings.kafka_bootstrap, "group.id": "test"})
    end = consumer.get_watermark_offsets(TopicPartition(JOB_STATUS_TOPIC, 0), timeout=10)[1]
    consumer.close()
    return end


def _said(settings: JobSettings, start: int) -> list[dict[str, Any]]:
    """What the relay has published of itself from there on: other tests share the broker."""
    consumer = Consumer({"bootstrap.servers": settings.kafka_bootstrap, "group.id": "test"})
    consumer.assign([TopicPartition(JOB_STATUS_TOPIC, 0, start)])
    messages = consumer.consume(_status_end(settings) - start, timeout=60)
    consumer.close()
    return [json.loads(m.value() or b"") for m in messages if m.key() == b"relay"]


@contextmanager
def _running(settings: JobSettings) -> Iterator[threading.Event]:
    stop = threading.Event()
    thread = threading.Thread(target=relay.run, args=(settings, stop))
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


_wait = partial(eventually, within_s=90, every_s=0.05)


@pytest.mark.stack
def test_two_relays_send_each_row_once_and_in_order(
    job_settings: JobSettings, connection: store.Connection, topic: str
) -> None:
    outbox = Outbox(connection)
    start = _status_end(job_settings)
    with _running(job_settings), _running(job_settings):
        _put(connection, topic, 12_000)
        _wait(lambda: outbox.depth().records == 0)
        _put(connection, topic, 1)
        _wait(lambda: outbox.depth().records == 0)
    read = _read(job_settings, topic)
    assert len(read) == 12_001
    by_key: dict[int, list[int]] = {}
    for _, value in read[:-1]:
        by_key.setdefault(value % 10, []).append(value)
    by_key[1] = [value for value in by_key[1] if value != 1]
    assert all(values == sorted(values) for values in by_key.values())
    said = _said(job_settings, start)
    assert said[-1]["state"] == "stopped"
    assert any(r["state"] == "running" and r["lag_records"] is not None for r in said)


@pytest.mark.stack
def test_a_crash_between_the_answer_and_the_removal_sends_the_same_ids_again(
    job_settings: JobSettings, connection: store.Connection, topic: str
) -> None:
    class CrashingOutbox(Outbox):
        def remove(self, seqs: list[int]) -> None:
            raise StoreAwayError(f"lost with {len(seqs)} rows")

    _put(connection, topic, 3)
    worker = Relay(job_settings, threading.Event(), _Heard())
    with pytest.raises(StoreAwayError):
        worker.send_batch(CrashingOutbox(connection))
    assert worker.send_batch(Outbox(connection))
    assert Outbox(connection).depth().records == 0
    assert sorted(i for i, _ in _read(job_settings, topic)) == sorted(["id-1", "id-2", "id-3"] * 2)


@pytest.mark.stack
def test_what_is_to_come_at_most_once_is_gone_before_it_is_sent(
    job_settings: JobSettings,
    connection: store.Connection,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outbox = Outbox(connection)
    worker = Relay(job_settings, threading.Event(), _Heard())
    monkeypatch.setattr(worker, "_at_most_once", frozenset({topic}))
    _put(connection, topic, 3)
    assert worker.send_batch(outbox)
    assert not worker.send_batch(outbox)
    assert sorted(i for i, _ in _read(job_settings, topic)) == ["id-1", "id-2", "id-3"]

    def dies(_rows: list[OutboxRow], _go_on: Callable[[], bool]) -> dict[int, str]:
        assert outbox.depth().records == 0
        raise SystemExit

    _put(connection, topic, 3)
    monkeypatch.setattr(worker._producer, "send", dies)
    with pytest.raises(SystemExit):
        worker.send_batch(outbox)
    again = Relay(job_settings, threading.Event(), _Heard())
    assert not again.send_batch(outbox)
    assert len(_read(job_settings, topic)) == 3


@pytest.mark.stack
def test_a_missing_topic_is_held_back_and_the_others_flow(
    job_settings: JobSettings,
    connection: store.Connection,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay, "_HOLD_S", 0.5)
    later = topic.replace("test", "later")
    _put(connection, later, 20)
    outbox, heard = Outbox(connection), _Heard()
    worker = Relay(job_settings, threading.Event(), heard)
    worker.send_batch(outbox)
    assert outbox.depth().records == 20
    _put(connection, topic, 5)
    worker.send_batch(outbox)
    assert outbox.depth().records == 20
    assert len(_read(job_settings, topic)) == 5
    _create(job_settings, later)
    _wait(lambda: not worker.send_batch(outbox) and outbox.depth().records == 0)
    assert {i for i, _ in _read(job_settings, later)} == {f"id-{n}" for n in range(1, 21)}


@pytest.mark.stack
def test_the_relay_outlives_kafka_and_postgres(
    parts: Stack, job_settings: JobSettings, connection: store.Connection, topic: str
) -> None:
    with _running(job_settings):
        _put(connection, topic, 10)
        _wait(lambda: Outbox(connection).depth().records == 0)
        parts.hold("kafka")
        _put(connection, topic, 10)
        time.sleep(3)
        assert Outbox(connection).depth().records == 10
        parts.release("kafka")
        _wait(lambda: Outbox(connection).depth().records == 0, within_s=60)
        parts.hold("postgres")
        parts.release("postgres")
        url = job_settings.postgres_url.get_secret_value()
        with store.connect(url, "test") as again:
            _put(again, topic, 10)
            _wait(lambda: Outbox(again).depth().records == 0)
    assert len(_read(job_settings, topic)) >= 30
