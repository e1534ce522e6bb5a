"""The topic of all events has what the topics of the types have, whoever is killed meanwhile."""

from collections import defaultdict
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer

from clients.kafka.create_topics import ensure_topics
from local_stack.run.stack import Stack
from shared.settings import JobSettings
from tests.every_event import LIFTS
from tests.job_process import JobProcess
from tests.kafka_log import Record, eventually, last_values, read_topic

pytestmark = pytest.mark.stack

LIFT_COUNT, RIDES = 100, 100
IN_ALL, OF_LIFTS = (row.topic for row in LIFTS.all_events)


def _write_rides(bootstrap: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "partitioner": "murmur2_random",
        }
    )
    for number in range(RIDES):
        for lift in range(LIFT_COUNT):
            headers = [("ce_id", f"ride-{lift}-{number}".encode())]
            value = orjson.dumps({"n": number})
            producer.produce("ingest.ride.v1", value, f"lift-{lift:03}", headers=headers)
        producer.poll(0)
    assert producer.flush(60) == 0


def _firsts(records: list[Record]) -> dict[tuple[bytes, bytes], list[bytes]]:
    """By entity and type, ids in the order of the log; a repeat has no place in it."""
    found: dict[tuple[bytes, bytes], dict[bytes, None]] = defaultdict(dict)
    for record in sorted(records, key=lambda one: one[:2]):
        found[record.key or b"", record.headers["ce_type"]][record.headers["ce_id"]] = None
    return {whose: [*ids] for whose, ids in found.items()}


def _as_written(records: list[Record]) -> set[tuple[object, ...]]:
    return {(one.key, one.value, *sorted(one.headers.items())) for one in records}


def test_it_has_every_event_in_its_order_through_kills(
    empty_kafka: Stack, spark_environment: dict[str, str], tmp_path: Path
) -> None:
    bootstrap = empty_kafka.kafka_bootstrap
    settings = JobSettings(
        kafka_bootstrap=bootstrap, state_dir=tmp_path / "state", flow="tests.every_event:LIFTS"
    )
    ensure_topics(LIFTS, settings)
    _write_rides(bootstrap)
    variables = {**spark_environment, "HEADRACE_BATCH_RECORDS_MAX": "1000"}
    enrich = JobProcess("enrich", settings, tmp_path / "enrich.log", variables)
    fold = JobProcess("fold", settings, tmp_path / "fold.log", variables)

    def written() -> int:
        return len(read_topic(bootstrap, IN_ALL))

    with enrich, fold:
        for job in (enrich, fold, enrich, fold):
            before = written()
            eventually(lambda: written() > before, within_s=200, every_s=0.05)  # noqa: B023
            job.kill()
            job.start()

        def rides() -> int:
            return sum(state["rides"] for state in last_values(bootstrap, "state.lift.v1").values())

        eventually(lambda: rides() == LIFT_COUNT * RIDES, within_s=200)

        own = [one for topic in LIFTS.event_topics for one in read_topic(bootstrap, topic)]
        there = read_topic(bootstrap, IN_ALL)
        expected = LIFT_COUNT * (RIDES + len(range(0, RIDES, 3)) + RIDES // 5)
        assert len({one.headers["ce_id"] for one in own}) == expected
        assert _as_written(there) == _as_written(own)
        assert _firsts(there) == _firsts(own)
        of_lifts = [one for one in own if one.headers["ce_type"] != b"stopped"]
        assert _firsts(read_topic(bootstrap, OF_LIFTS)) == _firsts(of_lifts)
