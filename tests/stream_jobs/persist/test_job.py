import json
import os
import threading
import time
from collections.abc import Iterator
from functools import partial

import orjson
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from clients.kafka.create_topics import ensure_topics
from clients.postgres import store
from clients.postgres.outbox import Outbox
from local_stack.run.stack import Stack
from shared.flow import FLOW
from shared.folding import snapshot
from shared.folding.snapshot import Snapshot
from shared.settings import JobSettings
from stream_jobs.guards.breaker import Breaker
from stream_jobs.persist.job import build
from stream_jobs.supervision.session import open_session
from stream_jobs.supervision.until_stored import write_until_stored
from tests.kafka_log import eventually


def test_a_batch_runs_again_when_the_store_is_back() -> None:
    outcomes = iter(["refused", None])
    answers = iter(["still away", None])
    heard: list[Breaker] = []
    slept_s: list[float] = []
    write_until_stored(lambda: next(outcomes), lambda: next(answers), heard.append, slept_s.append)
    assert [(one.state, one.reason) for one in heard] == [
        ("open", "refused"),
        ("open", "still away"),
        ("half-open", "still away"),
    ]
    assert len({one.since_ms for one in heard}) == 1
    assert slept_s == [0.25, 0.5]


@pytest.fixture(scope="module")
def spark(
    spark_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    os.environ.update(spark_environment)
    session = open_session(JobSettings(state_dir=tmp_path_factory.mktemp("spark")), "test")
    yield session
    session.stop()


# other tests write to the same logs
_OWN = "persisted"


def _say(_state: str, _detail: str = "", _postgres: Breaker | None = None) -> None: ...


def _event(number: int) -> bytes:
    return orjson.dumps(
        {
            "id": f"e{number}",
            "type": "reading",
            "entity_id": f"{_OWN}-{number % 50}",
            "time_ms": 1_000,
            "arrived_ms": 2_000,
            "origin": ["ingest.telemetry.v1", 0, number],
            "data": {"value": number},
        }
    )


def _send(settings: JobSettings, numbers: range, poison: bytes) -> None:
    producer = Producer(
        {"bootstrap.servers": settings.kafka_bootstrap, "partitioner": "murmur2_random"}
    )
    for number in numbers:
        producer.produce("event.reading.v1", _event(number), f"{_OWN}-{number % 50}")
        state = snapshot.encode(Snapshot({"count": number}, version=number + 1), "f")
        producer.produce("state.device.v1", state, f"{_OWN}-{number % 50}")
    producer.produce("event.reading.v1", poison, f"{_OWN}-1")
    producer.flush(60)


_wait = partial(eventually, within_s=240, every_s=0.1)


def _counts(settings: JobSettings) -> tuple[int, int, int, int]:
    with store.connect(settings.postgres_url.get_secret_value(), "test") as connection:
        row = connection.execute(
            """WITH own AS (SELECT topic FROM headrace.outbox WHERE key LIKE %(key)s)
               SELECT (SELECT count(*) FROM headrace.event WHERE entity_id LIKE %(id)s),
                      (SELECT count(*) FROM headrace.entity_state WHERE id LIKE %(id)s),
                      (SELECT count(*) FROM own WHERE topic LIKE 'completion.%%'),
                      (SELECT count(*) FROM own WHERE topic LIKE 'dlq.%%')""",
            {"id": f"{_OWN}-%", "key": f"{_OWN}-%".encode()},
        ).fetchone()
    assert row is not None
    return row


@pytest.mark.stack
def test_every_event_has_one_row_and_one_completion_through_an_outage_and_a_lost_checkpoint(
    spark: SparkSession, parts: Stack, job_settings: JobSettings
) -> None:
    ensure_topics(FLOW, job_settings)
    query = build(spark, job_settings, FLOW, _say).start()
    _send(job_settings, range(1_000), b"\xff")
    _wait(lambda: _counts(job_settings) == (1_000, 50, 1_000, 1))

    parts.hold("postgres")
    _send(job_settings, range(1_000, 2_000), b"{")
    time.sleep(3)
    assert query.isActive
    parts.release("postgres")
    _wait(lambda: _counts(job_settings) == (2_000, 50, 2_000, 2))
    query.stop()

    lost = job_settings.model_copy(update={"checkpoint_dir": job_settings.state_dir / "other"})
    query = build(spark, lost, FLOW, _say).start()
    query.processAllAvailable()
    query.stop()
    assert _counts(job_settings) == (2_000, 50, 2_000, 2)
    with store.connect(job_settings.postgres_url.get_secret_value(), "test") as connection:
        pending = Outbox(connection).pending(5_000)
    rows = [row for row in pending if (row.key or b"").startswith(_OWN.encode())]
    assert len({dict(row.headers)["ce_id"] for row in rows}) == 2_002
    newest = [json.loads(row.value or b"")["event_id"] for row in rows if row.key == b"persisted-7"]
    assert newest == [f"e{n}" for n in range(7, 2_000, 50)]


@pytest.mark.stack
def test_a_stop_during_an_outage_ends_the_query_and_loses_nothing(
    spark: SparkSession, parts: Stack, job_settings: JobSettings
) -> None:
    query = build(spark, job_settings, FLOW, _say).start()
    query.processAllAvailable()
    before = _counts(job_settings)
    parts.hold("postgres")
    _send(job_settings, range(5_000, 5_010), b"")
    time.sleep(3)
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    stopping.join(60)
    assert not stopping.is_alive() and not query.isActive
    assert query.exception() is None
    parts.release("postgres")
    query = build(spark, job_settings, FLOW, _say).start()
    query.processAllAvailable()
    query.stop()
    after = _counts(job_settings)
    assert [new - old for new, old in zip(after, before, strict=True)] == [10, 0, 10, 1]
