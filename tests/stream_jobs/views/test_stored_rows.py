"""Rows of views in PostgreSQL, while what writes them is killed, the store is away, and the topic
has older versions behind newer ones."""

import random
import shutil
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pydantic import SecretStr

from clients.kafka.create_topics import ensure_topics
from clients.kafka.offsets import LogOffsets
from clients.postgres import schema, store
from local_stack.run.stack import Stack
from shared.consumer_groups import of_job
from shared.flow import load_flow
from shared.model import View
from shared.settings import JobSettings
from shared.tables.view_tables import table_of
from tests.job_process import JobProcess
from tests.kafka_log import eventually, read_topic
from tests.stream_jobs.views.test_job import feed
from tests.stream_jobs.views_flow import SECOND_VERSIONS, STORED_VIEWS

pytestmark = pytest.mark.stack

FLOW = "tests.stream_jobs.views_flow:STORED_FLOW"
WITH_SECOND_VERSIONS = "tests.stream_jobs.views_flow:SECOND_FLOW"
Rows = dict[tuple[Any, ...], dict[str, Any]]


class Rig(NamedTuple):
    settings: JobSettings
    variables: dict[str, str]
    folder: Path

    def job(self, name: str) -> JobProcess:
        return JobProcess(name, self.settings, self.folder / f"{name}.log", self.variables)

    def prepare(self) -> None:
        flow = load_flow(self.settings.flow)
        ensure_topics(flow, self.settings)
        schema.migrate(self.url, [table_of(row) for row in flow.views])

    @property
    def url(self) -> str:
        return self.settings.postgres_url.get_secret_value()

    def told(self, row: View) -> Rows:
        """By the topic: of each key the row with the highest version."""
        kept: Rows = {}
        for record in read_topic(self.settings.kafka_bootstrap, row.topic):
            fields = orjson.loads(record.value or b"")
            fields["_version"] = fields.pop("_meta")["version"]
            if "time" in fields:
                fields["time"] = datetime.fromisoformat(fields["time"])
            for end, its_time in fields.pop("window", {}).items():
                fields[f"window_{end}"] = datetime.fromisoformat(its_time)
            key = tuple(fields[name] for name in table_of(row).key)
            if fields["_version"] >= kept.get(key, fields)["_version"]:
                kept[key] = fields
        return kept

    def stored(self, row: View) -> Rows:
        with store.connect(self.url, "test") as connection:
            found = connection.execute(f"SELECT * FROM headrace.{row.job}".encode())
            names = [column.name for column in found.description or ()]
            rows = [dict(zip(names, values, strict=True)) for values in found]
        return {tuple(fields[name] for name in table_of(row).key): fields for fields in rows}

    def is_stored(self, row: View) -> bool:
        wanted, found = self.told(row), self.stored(row)
        return found.keys() == wanted.keys() and all(
            found[key] == {name: _about(value) for name, value in its.items()}
            for key, its in wanted.items()
        )

    def goes_on(self) -> None:
        """Each table gets rows."""
        before = {row: self._newest(row) for row in STORED_VIEWS}
        eventually(lambda: all(self._newest(row) > its for row, its in before.items()), 300, 1)

    def _newest(self, row: View) -> int:
        return max((fields["_version"] for fields in self.stored(row).values()), default=0)

    def bring_again(self) -> None:
        """Rows that stand on the topics, in any order: older ones behind newer."""
        producer = Producer(
            {
                "bootstrap.servers": self.settings.kafka_bootstrap,
                "partitioner": "murmur2_random",
            }
        )
        dice = random.Random(3)
        for row in STORED_VIEWS:
            records = [*read_topic(self.settings.kafka_bootstrap, row.topic)]
            for record in dice.sample(records, min(len(records), 300)):
                producer.produce(row.topic, record.value, record.key)
        assert producer.flush(60) == 0


def _about(value: Any) -> Any:
    """Added up in another order it may differ in the last digit."""
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value


@pytest.fixture
def rig(
    parts: Stack, postgres_url: str, spark_environment: dict[str, str], tmp_path: Path
) -> Iterator[Rig]:
    settings = JobSettings(
        kafka_bootstrap=parts.kafka_bootstrap,
        postgres_url=SecretStr(postgres_url),
        state_dir=tmp_path / "job",
        flow=FLOW,
        partitions=4,
    )
    settings.make_folders()
    its = Rig(settings, {**spark_environment, "HEADRACE_POSTGRES_URL": postgres_url}, tmp_path)
    its.prepare()
    yield its


def test_a_table_has_the_latest_rows_of_its_topic_whatever_ends_in_between(
    rig: Rig, parts: Stack
) -> None:
    fed = threading.Event()
    feeder = threading.Thread(target=feed, args=(rig.settings.kafka_bootstrap, fed))
    feeder.start()
    try:
        with rig.job("views") as views, rig.job("persist") as persist:
            rig.goes_on()
            persist.kill()
            rig.bring_again()
            views.kill()
            shutil.rmtree(rig.settings.checkpoints / "view_stored_totals")  # all its rows again
            persist.start()
            views.start()
            time.sleep(15)
            parts.hold("postgres")
            time.sleep(5)
            parts.release("postgres")
            rig.goes_on()
            rig.bring_again()
            persist.kill()
            shutil.rmtree(rig.settings.checkpoints / "persist")
            persist.start()
            rig.goes_on()
            fed.set()
            feeder.join()
            for row in STORED_VIEWS:
                eventually(lambda row=row: rig.is_stored(row), 300, 3)
            assert all(len(rig.stored(row)) > 20 for row in STORED_VIEWS)
            assert any(key[0] is None for key in rig.stored(STORED_VIEWS[-1]))
    finally:
        fed.set()
        feeder.join()


def _send_a_row(rig: Rig, row: View) -> None:
    key = {"tenant": None, "entity_id": "device-0001"}
    value = {**key, "readings": 3, "latest": 1.5, "_meta": {"version": 5}}
    producer = Producer({"bootstrap.servers": rig.settings.kafka_bootstrap})
    producer.produce(row.topic, orjson.dumps(value), orjson.dumps(key))
    assert producer.flush(60) == 0


def test_persist_goes_on_when_a_view_has_another_version_and_the_old_topic_is_gone(
    rig: Rig,
) -> None:
    first, second = STORED_VIEWS[-1], SECOND_VERSIONS[-1]
    _send_a_row(rig, first)
    with rig.job("persist"):
        eventually(lambda: rig.stored(first), 200, 1)
        time.sleep(3)  # the batch is noted as done
    admin = AdminClient({"bootstrap.servers": rig.settings.kafka_bootstrap})
    for deleted in admin.delete_topics([row.topic for row in STORED_VIEWS]).values():
        deleted.result(60)
    later = rig._replace(
        settings=rig.settings.model_copy(update={"flow": WITH_SECOND_VERSIONS}),
    )
    later.prepare()
    _send_a_row(later, second)
    with later.job("persist"):
        eventually(lambda: later.stored(second), 200, 1)
        with LogOffsets(later.settings.kafka, of_job("persist"), [second.topic]) as log:
            eventually(lambda: sum(log.committed().offsets[second.topic].values()) == 1, 60, 1)
    assert later.stored(first)
