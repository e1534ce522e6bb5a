"""What is done with goes from the lane, on a real broker; what waits stays."""

from pathlib import Path

import pytest

from clients.kafka.create_topics import ensure_topics
from clients.kafka.offsets import LogOffsets
from local_stack.run.stack import Stack
from shared.consumer_groups import of_job
from shared.flow import FLOW
from shared.settings import JobSettings
from stream_jobs.retry.lane_trim import LaneTrim
from stream_jobs.waiting.codec import gate_value
from stream_jobs.waiting.line import Told
from tests.kafka_log import eventually
from tests.stream_jobs.retry.test_waker import _have_leaders
from tests.stream_jobs.waiting.test_gate_view import GATE, LANE, _commit, _write

pytestmark = pytest.mark.stack


def test_what_is_done_goes_and_neither_what_waits_nor_what_is_young(
    empty_kafka: Stack, tmp_path: Path
) -> None:
    settings = JobSettings(
        kafka_bootstrap=empty_kafka.kafka_bootstrap, state_dir=tmp_path, partitions=1
    )
    ensure_topics(FLOW, settings)
    lane = LogOffsets(settings.kafka, of_job("retry"), [LANE])
    eventually(
        lambda: _have_leaders(
            LogOffsets(settings.kafka, of_job("t"), [t.name for t in FLOW.topics()])
        )
    )

    def begins() -> int:
        return lane.ranges()[LANE, 0].start

    for number in range(6):
        sent = _write(settings, LANE, f"device-{number}", b"{}")
    waits = Told(1, 1, "ingest.telemetry.v1/0/5", "missing_device", "device-3", {"0": 3})
    _write(settings, GATE, "device-3", gate_value(waits))
    LaneTrim(settings, kept_ms=0).trim()
    assert begins() == 0  # retry has passed nothing
    _commit(settings, "retry", sent)
    LaneTrim(settings, kept_ms=3_600_000).trim()
    assert begins() == 0  # it was sent just now
    LaneTrim(settings, kept_ms=0).trim()
    eventually(lambda: begins() == 3)
    _write(settings, GATE, "device-3", None)
    LaneTrim(settings, kept_ms=0).trim()
    eventually(lambda: begins() == 6)
