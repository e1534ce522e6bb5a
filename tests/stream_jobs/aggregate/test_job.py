"""The job on a real broker: devices that move while it is killed and started again."""

import random
import shutil
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer

from clients.kafka.create_topics import ensure_topics
from local_stack.run.stack import Stack
from shared.flow import load_flow
from shared.folding import snapshot
from shared.folding.snapshot import Snapshot
from shared.model import Fields
from shared.sample_domain import device
from shared.settings import JobSettings
from tests.job_process import JobProcess
from tests.kafka_log import eventually, last_values, read_topic
from tests.oracle import expected_areas

pytestmark = pytest.mark.stack

DEVICES = 500
ROUNDS = 6


def _round(number: int, dice: random.Random, devices: dict[str, Fields]) -> list[tuple[str, bytes]]:
    """Every device with a new snapshot, a third of them in another area; some written twice."""
    written = []
    for index in range(DEVICES):
        name = f"device-{index:04}"
        before = devices.get(name, device.initial(name))
        area = before["area"] if number and dice.random() > 0.3 else f"area-{dice.randrange(12)}"
        value = dice.uniform(-20, 120)
        state = {
            **before,
            "area": area,
            "count": before["count"] + 1,
            "value": value,
            "value_at_ms": 1_700_000_000_000 + number,
            "max": value if before["max"] is None else max(value, before["max"]),
        }
        devices[name] = state
        record = snapshot.encode(Snapshot(state, version=number + 1, event_time_ms=number), "fold")
        written += [(name, record)] * dice.choice((1, 1, 2))
    return written


def _areas(bootstrap: str) -> dict[str, Fields]:
    areas = last_values(bootstrap, "state.area.v1")
    return {key: {k: v for k, v in area.items() if k != "_meta"} for key, area in areas.items()}


def _all_above(bootstrap: str, versions: dict[bytes | None, int]) -> bool:
    areas = last_values(bootstrap, "state.area.v1")
    full = {key: area["_meta"]["version"] for key, area in areas.items() if area["devices"]}
    return all(version > versions[key.encode()] for key, version in full.items())


def test_areas_are_what_their_devices_add_up_to_through_kills_and_moves(
    spark_environment: dict[str, str], tmp_path: Path
) -> None:
    dice = random.Random(3)
    devices: dict[str, Fields] = {}
    with Stack(tmp_path / "kafka", random_ports=True, services=("kafka",)) as stack:
        bootstrap = stack.kafka_bootstrap
        settings = JobSettings(kafka_bootstrap=bootstrap, state_dir=tmp_path / "job")
        ensure_topics(load_flow(), settings)
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
            }
        )
        producer.produce("state.device.v1", b"no snapshot", "device-0000")

        def write_rounds(numbers: range) -> None:
            for number in numbers:
                for key, value in _round(number, dice, devices):
                    producer.produce("state.device.v1", value, key)
                assert producer.flush(60) == 0

        def added_up() -> bool:
            areas = {k: v for k, v in _areas(bootstrap).items() if v["devices"]}
            return areas == expected_areas(devices)

        with JobProcess("aggregate", settings, tmp_path / "log", spark_environment) as job:
            write_rounds(range(2))
            eventually(added_up, within_s=240)
            write_rounds(range(2, 4))
            job.kill()  # wherever it stands
            write_rounds(range(4, ROUNDS))
            job.start()
            eventually(added_up, within_s=240)
        versions: dict[bytes | None, int] = {}
        for record in read_topic(bootstrap, "state.area.v1"):
            version = orjson.loads(record.value or b"")["_meta"]["version"]
            # the batch that the kill cut short is written again, under its former versions
            assert version >= versions.get(record.key, 1) - 1
            versions[record.key] = max(version, versions.get(record.key, 0))
        shutil.rmtree(settings.checkpoints)
        # while the job is down an area loses its last device
        left = devices["device-0000"]["area"]
        other = next(state["area"] for state in devices.values() if state["area"] != left)
        for name, state in devices.items():
            if state["area"] == left:
                state["area"] = other
                record = snapshot.encode(Snapshot(state, version=ROUNDS + 1), "fold")
                producer.produce("state.device.v1", record, name)
        assert producer.flush(60) == 0
        with JobProcess("aggregate", settings, tmp_path / "log", spark_environment):
            eventually(lambda: added_up() and _all_above(bootstrap, versions), within_s=240)
            eventually(lambda: _areas(bootstrap)[left]["devices"] == 0)
        letters = {letter.value for letter in read_topic(bootstrap, "dlq.aggregate.v1")}
        assert letters == {b"no snapshot"}
