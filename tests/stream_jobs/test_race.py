"""Two events of one entity, back to back: the second always sees the first one's effect."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from local_stack.stack import Stack
from shared.envelope import EventRecord, Position, event_value
from shared.flow import load_flow
from shared.settings import JobSettings
from stream_jobs.topics import ensure_topics
from tests.job_process import JobProcess
from tests.kafka_log import distinct_events, eventually, last_values, read_topic
from tests.oracle import expected_states

pytestmark = pytest.mark.stack

PAIRS = 10_000
# small Arrow batches, so that there are rows enough in the shuffle to be spilled
SPILL = """{"spark.shuffle.spill.numElementsForceSpillThreshold": "1000",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "16"}"""


def _event(device: int, second: bool) -> EventRecord:
    # the second is what the machine's outcome hangs on: 70 is ALARM only after 90
    offset = 2 * device + second
    return EventRecord(
        position=Position("", 0, 0),
        entity_id=f"pair-{device:05}",
        id=f"event-{offset}",
        type="reading",
        time_ms=1_700_000_000_000,
        arrived_ms=1_700_000_000_000,
        origin=Position("ingest.telemetry.v1", 0, offset),
        attempt=0,
        data={"value": 70.0 if second else 90.0, "area": "area-01"},
    )


def _write(bootstrap: str, events: list[EventRecord]) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "partitioner": "murmur2_random",
        }
    )
    for event in events:
        producer.produce("event.reading.v1", event_value(event), event.entity_id)
    assert producer.flush(60) == 0


@pytest.fixture
def own_kafka_settings(tmp_path: Path) -> Iterator[JobSettings]:
    """Empty topics need a broker of their own: a topic's name comes from the flow."""
    with Stack(tmp_path / "kafka", random_ports=True, services=("kafka",)) as stack:
        yield JobSettings(kafka_bootstrap=stack.kafka_bootstrap, state_dir=tmp_path / "fold")


@pytest.mark.parametrize("spark_conf", ["{}", SPILL], ids=["in memory", "spilled"])
@pytest.mark.parametrize("cut", ["one batch", "two batches"])
def test_back_to_back_events_see_each_other(
    own_kafka_settings: JobSettings,
    spark_environment: dict[str, str],
    tmp_path: Path,
    spark_conf: str,
    cut: str,
) -> None:
    settings = own_kafka_settings
    bootstrap = settings.kafka_bootstrap
    ensure_topics(load_flow(), settings)
    firsts = [_event(device, second=False) for device in range(PAIRS)]
    seconds = [_event(device, second=True) for device in range(PAIRS)]
    pairs = [event for pair in zip(firsts, seconds, strict=True) for event in pair]
    _write(bootstrap, firsts if cut == "two batches" else pairs)
    variables = {**spark_environment, "HEADRACE_SPARK_CONF": spark_conf}

    def folded() -> int:
        states = last_values(bootstrap, "state.device.v1").values()
        return sum(state["count"] for state in states)

    with JobProcess("fold", settings, tmp_path / "fold.log", variables):
        if cut == "two batches":
            eventually(lambda: folded() == PAIRS, within_s=120)
            _write(bootstrap, seconds)
        eventually(lambda: folded() >= 2 * PAIRS, within_s=120)
    expected = expected_states(distinct_events(bootstrap, "event.reading.v1"))
    states = last_values(bootstrap, "state.device.v1")
    for state in states.values():
        del state["_meta"]
    assert states == expected
    assert {state["status"] for state in states.values()} == {"ALARM"}
    if cut == "one batch":
        assert len(read_topic(bootstrap, "state.device.v1")) == PAIRS
