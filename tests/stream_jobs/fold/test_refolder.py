"""fold and its refolder on a real broker: what was corrected or sent on again is in the state where
it belongs, also when the checkpoint was lost in the meantime."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from clients.kafka.create_topics import ensure_topics
from local_stack.run.stack import Stack
from shared.events.envelope import EventRecord, event_value
from shared.flow import FLOW
from shared.folding.code_fingerprint import entity_fingerprint
from shared.folding.refolding import Request, read_answer, request_value
from shared.settings import JobSettings
from shared.topic_names import REFOLD_TOPIC, REFOLDED_TOPIC
from stream_jobs.fold.refolder import Refolder, Requests
from tests.builders import event_record
from tests.job_process import JobProcess
from tests.kafka_log import eventually, last_values, read_topic

pytestmark = pytest.mark.stack

READINGS = FLOW.event_type("reading").topic
STATES = FLOW.entities[0].topic
DEVICES = [f"device-{number:04}" for number in range(20)]


def _readings(device: str, *values: tuple[int, float, int, int]) -> list[EventRecord]:
    """Place in the ingest log, value, attempt, revision."""
    return [
        event_record(
            place, id=f"{device}-{place}", value=value, attempt=attempt, revision=revision
        )._replace(entity_id=device)
        for place, value, attempt, revision in values
    ]


def test_what_comes_later_than_it_belongs_is_folded_in_where_it_belongs(
    spark_environment: dict[str, str], tmp_path: Path
) -> None:
    with Stack(tmp_path / "kafka", random_ports=True, services=("kafka",)) as stack:
        bootstrap = stack.kafka_bootstrap
        settings = JobSettings(kafka_bootstrap=bootstrap, state_dir=tmp_path / "job")
        ensure_topics(FLOW, settings)
        producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})

        def write(records: Sequence[EventRecord]) -> None:
            for record in records:
                producer.produce(READINGS, event_value(record), record.entity_id)
            assert producer.flush(60) == 0

        def state(device: str) -> dict[str, Any]:
            return last_values(bootstrap, STATES).get(device, {"_meta": {}})

        def asked() -> dict[bytes | None, bytes | None]:
            return {r.key: r.value for r in read_topic(bootstrap, "refold.fold.v1")}

        def folded(*wanted: object) -> bool:
            """Of each device, and nothing is asked for any more."""
            found = [state(device) for device in DEVICES]
            told = {tuple(s.get(n) for n in ("count", "value", "min", "status")) for s in found}
            return told == {wanted} and not any("asked" in s["_meta"] for s in found)

        def run() -> JobProcess:
            return JobProcess("fold", settings, tmp_path / "fold.log", spark_environment)

        for device in DEVICES:
            write(_readings(device, (1, 30.0, 0, 0), (2, 90.0, 0, 0), (4, 70.0, 0, 0)))
        with run():
            eventually(lambda: folded(3, 70.0, 30.0, "ALARM"), within_s=240)
            for device in DEVICES:
                # the alarm was none; what had been parked at 3 is mended, and drives the machine
                corrected = (2, 10.0, 1, 1), (3, 5.0, 1, 0), (2, 40.0, 1, 2), (5, 75.0, 0, 0)
                write(_readings(device, *corrected))
            eventually(lambda: folded(5, 75.0, 5.0, "ACTIVE"), within_s=240)
        versions = {device: state(device)["_meta"]["version"] for device in DEVICES}
        shutil.rmtree(settings.checkpoints / "fold")
        for device in DEVICES:
            write(_readings(device, (5, 5.0, 1, 1), (6, 80.0, 0, 0)))
        with run():
            eventually(lambda: folded(6, 80.0, 5.0, "ALARM"), within_s=240)
            # each with a null, which comes after the state
            eventually(lambda: [*asked().values()] == [None] * len(DEVICES))
        assert all(
            state(device)["_meta"]["version"] > version for device, version in versions.items()
        )
        assert read_topic(bootstrap, "dlq.fold.v1") == []


def test_all_that_is_open_is_answered_in_one_go_and_what_was_taken_is_not(
    parts: Stack, job_settings: JobSettings
) -> None:
    ensure_topics(FLOW, job_settings)
    producer = Producer({"bootstrap.servers": parts.kafka_bootstrap})

    def write(topic: str, key: bytes, value: bytes | None) -> int:
        """Where it stands."""
        told: list[Message] = []
        producer.produce(
            topic, value, key, partition=0, on_delivery=lambda _error, message: told.append(message)
        )
        assert producer.flush(30) == 0
        return int(told[0].offset() or 0)

    places = [
        write(READINGS, device.encode(), event_value(record))
        for device in ("asks", "waits-no-more", "asks")
        for record in _readings(device, (1, 30.0, 0, 0), (1, 40.0, 1, 1))
    ]
    start = places[0]
    write(READINGS, b"asks", b"{")
    write(READINGS, b"asks", event_value(_readings("asks", (9, 90.0, 0, 0))[0]))  # it asked before
    log = f"{READINGS}/0"

    def request(device: str, entity: str = "device") -> Request:
        return Request(entity, device, {log: start + 6}, {f"{device}-1": 1})

    for one in (request("waits-no-more"), request("asks"), request("else", "nothing")):
        write(REFOLD_TOPIC, one.key, request_value(one))
    write(REFOLD_TOPIC, request("waits-no-more").key, None)
    write(REFOLD_TOPIC, b"broken", b"{")

    requests = Requests(job_settings)
    try:
        eventually(lambda: set(requests.asked()) == {b"device:asks", b"nothing:else"})
        asked = requests.asked()
        Refolder(job_settings, FLOW).answer(asked)
        requests.forget(asked)
        assert requests.asked() == {}
    finally:
        requests.close()
    (told,) = read_topic(parts.kafka_bootstrap, REFOLDED_TOPIC)
    answer, fold = read_answer(told.value or b"")
    assert (told.key, answer.id, fold) == (b"asks", "asks", entity_fingerprint(FLOW.entities[0]))
    now = answer.snapshot
    assert (now.state["count"], now.state["value"], now.positions) == (1, 40.0, {log: start + 6})
