"""The job on a real broker and a real folder that a plain reader reads, with kills in between."""

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.dataset as ds
import pytest
from confluent_kafka import Producer

from clients.kafka.create_topics import ensure_topics
from local_stack.run.stack import Stack
from shared.events.envelope import EventRecord, event_headers, event_value
from shared.flow import load_flow
from shared.settings import JobSettings
from tests.builders import event_record
from tests.job_process import JobProcess
from tests.kafka_log import distinct_events, eventually

pytestmark = pytest.mark.stack

FLOW = "tests.stream_jobs.parquet_flow:FLOW"
DAY_MS = 86_400_000
KILLS = 4
ORIGIN = "topic", "partition", "offset"


class Rig(NamedTuple):
    bootstrap: str
    settings: JobSettings
    variables: dict[str, str]
    folder: Path
    producer: Producer

    def job(self) -> JobProcess:
        return JobProcess("parquet", self.settings, self.folder / "log", self.variables)

    def write(self, record: EventRecord) -> None:
        topic = f"event.{record.type}.v1"
        value, headers = event_value(record), event_headers(record)
        self.producer.produce(topic, value, record.entity_id, headers=headers)

    def table(self, name: str) -> list[dict[str, Any]]:
        """As a reader that knows nothing of us sees it."""
        folder = self.folder / "lake" / name
        if not folder.exists():
            return []
        found = ds.dataset(folder, format="parquet", partitioning="hive")
        return found.to_table().to_pylist()


@pytest.fixture
def rig(empty_kafka: Stack, spark_environment: dict[str, str], tmp_path: Path) -> Iterator[Rig]:
    bootstrap = empty_kafka.kafka_bootstrap
    settings = JobSettings(kafka_bootstrap=bootstrap, state_dir=tmp_path / "job", flow=FLOW)
    settings.make_folders()
    ensure_topics(load_flow(FLOW), settings)
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    variables = {**spark_environment, "HEADRACE_TEST_LAKE": str(tmp_path / "lake")}
    yield Rig(bootstrap, settings, variables, tmp_path, producer)


def reading(number: int) -> EventRecord:
    """Of three days."""
    at_ms = 1_700_000_000_000 + number % 3 * DAY_MS
    data = {"value": number / 2, "area": "area-01", "attributes": {"floor": number}, "new": number}
    return event_record(
        number, entity_id=f"acme/device-{number % 50:04}", arrived_ms=at_ms, data=data
    )


def feed(rig: Rig, stop: threading.Event) -> None:
    """As enrich does: after each crash some of what it wrote last comes once more."""
    dice, number = random.Random(7), 0
    while not stop.is_set():
        again = dice.randrange(200) if dice.random() < 0.2 else 0
        for one in range(max(0, number - again), number + 50):
            rig.write(reading(one))
        number += 50
        rig.producer.poll(0)
        time.sleep(0.2)
    assert rig.producer.flush(60) == 0


def watch(rig: Rig, stop: threading.Event, seen: list[str]) -> None:
    """Whoever reads at any time finds no event twice, and no file that is not whole."""
    while not stop.wait(0.5):
        try:
            many = Counter(row["event_id"] for row in rig.table("readings"))
        except Exception as error:
            seen.append(str(error))
            continue
        seen.extend(name for name, count in many.items() if count > 1)


def test_each_event_stands_in_the_files_once_through_kills(rig: Rig) -> None:
    dice = random.Random(11)
    fed, read, wrong = threading.Event(), threading.Event(), []
    feeder = threading.Thread(target=feed, args=(rig, fed))
    reader = threading.Thread(target=watch, args=(rig, read, wrong))
    rig.write(event_record(1, id="alarm", type="alarm_raised", data={"value": 9, "area": None}))
    feeder.start()
    reader.start()
    try:
        with rig.job() as job:
            for kill in range(KILLS):
                before = len(rig.table("readings"))
                eventually(lambda before=before: len(rig.table("readings")) > before, 240)
                time.sleep(dice.random() * 1.5)
                job.kill()
                if kill == 1:
                    shutil.rmtree(rig.settings.checkpoints / "parquet")
                if kill == KILLS - 1:
                    fed.set()
                    feeder.join()
                job.start()
            wanted = {one["id"]: one for one in distinct_events(rig.bootstrap, "event.reading.v1")}
            eventually(lambda: len(rig.table("readings")) >= len(wanted), 120)
            time.sleep(3)
    finally:
        fed.set()
        read.set()
        feeder.join()
        reader.join()
    rows = rig.table("readings")
    assert not wrong
    assert Counter(row["event_id"] for row in rows) == Counter([*wanted])
    for row in rows:
        event = wanted[row["event_id"]]
        assert row["value"] == event["data"]["value"]
        assert (row["origin_topic"], row["origin_offset"]) == (
            "ingest.telemetry.v1",
            event["origin"][2],
        )
        assert row["rest_json"] == f'{{"new":{event["data"]["new"]}}}'
    assert {str(row["day"]) for row in rows} == {"2023-11-14", "2023-11-15", "2023-11-16"}
    assert rows[0]["tenant"] == "acme"
    (alarm,) = rig.table("alarms")
    assert (alarm["event_id"], alarm["value"], alarm["area"]) == ("alarm", 9.0, None)
