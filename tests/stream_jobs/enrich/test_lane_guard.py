"""A flow without `retry` and `master`, on a real broker where payloads still wait."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from clients.kafka.create_topics import ensure_topics
from clients.kafka.offsets import LogOffsets
from local_stack.run.stack import Stack
from shared.consumer_groups import of_job
from shared.errors import LaneLeftError
from shared.flow import FLOW
from shared.settings import JobSettings
from stream_jobs.enrich.lane_guard import LaneGuard
from stream_jobs.waiting.codec import gate_value
from stream_jobs.waiting.line import Told
from tests.kafka_log import eventually

pytestmark = pytest.mark.stack
NOBODY_WAITS = replace(
    FLOW, endpoints=tuple(replace(row, master=()) for row in FLOW.open_endpoints)
)
TOLD = Told(1, 1_700_000_000_000, "ingest.telemetry.v1/0/0", "not_yet", "it is away", {"0": 0})


def _write(settings: JobSettings, topic: str, key: str, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": settings.kafka_bootstrap})
    producer.produce(topic, value, key)
    assert producer.flush(60) == 0


def _starts(guard: LaneGuard) -> bool:
    with suppress(KafkaException):
        guard.start()
        return True
    return False


def test_enrich_does_not_start_while_nobody_would_do_what_waits(
    empty_kafka: Stack, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = JobSettings(kafka_bootstrap=empty_kafka.kafka_bootstrap, state_dir=tmp_path)
    assert not NOBODY_WAITS.waits
    guard = LaneGuard(settings, NOBODY_WAITS)
    guard.start()  # there has never been a lane
    ensure_topics(FLOW, settings)
    eventually(lambda: _starts(guard))  # new topics may be without a leader for a moment
    for key, value in (("door-4", TOLD), ("door-5", TOLD), ("door-4", None)):
        told = None if value is None else gate_value(value)
        _write(settings, "gate.enrich.v1", key, told)
    with pytest.raises(LaneLeftError, match=r"of door-5, .*start the former flow again"):
        guard.start()
    LaneGuard(settings, FLOW).start()
    _write(settings, "gate.enrich.v1", "door-5", None)
    guard.start()
    _write(settings, "retry.enrich.v1", "door-6", b"{}")
    # as when Kafka has dropped how far retry was: nobody trims what is done
    assert "it is not known whether all in retry.enrich.v1 is done" not in caplog.text
    guard.start()
    assert "it is not known whether all in retry.enrich.v1 is done" in caplog.text
    with LogOffsets(settings.kafka, of_job("retry"), ["retry.enrich.v1"]) as lane:
        ends = lane.ends()
        lane.commit({"retry.enrich.v1": {at: end for (_, at), end in ends.items()}}, "")
        guard.start()
        (full,) = [at for (_, at), end in ends.items() if end]
        lane.commit({"retry.enrich.v1": {full: 0}}, "")  # retry has not told of it yet
    with pytest.raises(LaneLeftError, match=r"payloads wait in retry\.enrich\.v1, and"):
        guard.start()
