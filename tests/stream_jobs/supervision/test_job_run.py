"""A job's process, as usual tools and an operator see it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec

from clients.kafka.create_topics import ensure_topics
from local_stack.run.stack import Stack
from shared.settings import JobSettings
from shared.topic_names import JOB_STATUS_TOPIC
from tests.job_process import JobProcess
from tests.kafka_log import eventually, last_values, read_topic
from tests.races import DEVICES

pytestmark = pytest.mark.stack

READING = "event.reading.v1"


@pytest.fixture
def settings(empty_kafka: Stack, tmp_path: Path) -> JobSettings:
    bootstrap = empty_kafka.kafka_bootstrap
    settings = JobSettings(kafka_bootstrap=bootstrap, state_dir=tmp_path / "fold")
    ensure_topics(DEVICES.flow, settings)
    return settings


def _said(settings: JobSettings) -> dict[str, Any]:
    return last_values(settings.kafka_bootstrap, JOB_STATUS_TOPIC).get("fold", {})


def _lag_as_usual_tools_see_it(settings: JobSettings) -> int:
    """By the two requests that `kafka-consumer-groups --describe` and lag exporters make."""
    admin = AdminClient({"bootstrap.servers": settings.kafka_bootstrap})
    group = ConsumerGroupTopicPartitions("headrace-fold")
    (found,) = admin.list_consumer_group_offsets([group]).values()
    committed = found.result(60).topic_partitions
    assert len(committed) == settings.partitions * len(DEVICES.flow.fold_reads)
    ends = admin.list_offsets(
        {TopicPartition(at.topic, at.partition): OffsetSpec.latest() for at in committed}
    )
    return sum(
        ends[TopicPartition(at.topic, at.partition)].result(60).offset - at.offset
        for at in committed
    )


def test_its_lag_is_seen_by_usual_tools_and_a_topic_made_anew_stops_it_by_name(
    settings: JobSettings, tmp_path: Path, spark_environment: dict[str, str]
) -> None:
    bootstrap, log = settings.kafka_bootstrap, tmp_path / "fold.log"
    events = [DEVICES.event(number, second=False) for number in range(1_500)]
    job = JobProcess("fold", settings, log, spark_environment)
    with job:
        DEVICES.write(bootstrap, events[:1_000])
        eventually(lambda: _said(settings).get("lag_records") == 0, within_s=240)
        said = _said(settings)
        assert said["lag_s"] == 0.0
        assert said["breakers"]["kafka"]["state"] == "closed"
        assert len(read_topic(bootstrap, DEVICES.state_topic)) == 1_000
        assert _lag_as_usual_tools_see_it(settings) == 0
        job.kill()
        DEVICES.write(bootstrap, events[1_000:])
        assert _lag_as_usual_tools_see_it(settings) == 500

        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.delete_topics([READING])[READING].result(60)
        eventually(lambda: READING not in admin.list_topics(timeout=10).topics)
        ensure_topics(DEVICES.flow, settings)
        DEVICES.write(bootstrap, events)  # more than it had read: by its offsets all is well
        job.start()
        eventually(lambda: _said(settings)["state"] == "failed", within_s=240)
        assert _said(settings)["detail"].startswith(f"TOPIC_RECREATED: {READING} was deleted and")
        assert "docs/operations.md" in _said(settings)["detail"]
        assert len(read_topic(bootstrap, DEVICES.state_topic)) == 1_000
        # nothing of the new topic counts as done
        assert _lag_as_usual_tools_see_it(settings) == 1_500


def test_a_state_topic_that_was_widened_stops_it_by_name_also_without_its_checkpoint(
    settings: JobSettings, tmp_path: Path, spark_environment: dict[str, str]
) -> None:
    bootstrap, log = settings.kafka_bootstrap, tmp_path / "fold.log"
    topic = DEVICES.state_topic
    widened = f"TOPIC_WIDENED: {topic} had {settings.partitions} partitions and has 9 now"
    with JobProcess("fold", settings, log, spark_environment) as job:
        DEVICES.write(bootstrap, [DEVICES.event(number, second=False) for number in range(300)])
        eventually(lambda: _said(settings).get("lag_records") == 0, within_s=240)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_partitions([NewPartitions(topic, 9)])[topic].result(60)
        eventually(lambda: _said(settings)["state"] == "failed", within_s=60)
        assert _said(settings)["detail"].startswith(widened)
        job.kill()
        shutil.rmtree(settings.checkpoints / "fold")
        job.start()
        eventually(lambda: _said(settings)["state"] == "restarting", within_s=120)
        eventually(lambda: _said(settings)["state"] == "failed", within_s=240)
        assert _said(settings)["detail"].startswith(widened)
        job.kill()
    accepted = {**spark_environment, "HEADRACE_WIDENED_TOPICS": json.dumps({topic: 9})}
    with JobProcess("fold", settings, log, accepted):
        eventually(lambda: _said(settings)["state"] == "restarting", within_s=120)
        eventually(lambda: _said(settings)["state"] == "running", within_s=240)
