import logging
from dataclasses import replace

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
)

from clients.kafka.create_topics import ensure_topics, other_configs
from shared.flow import FLOW
from shared.kafka_access import KafkaAwayError
from shared.model import EventType
from shared.settings import JobSettings, Settings
from tests.kafka_log import eventually


@pytest.mark.slow
def test_an_absent_broker_is_told_in_one_sentence() -> None:
    settings = Settings(kafka_bootstrap="127.0.0.1:1")
    with pytest.raises(KafkaAwayError, match=r"Kafka at 127\.0\.0\.1:1 did not answer within 0 s"):
        ensure_topics(FLOW, settings, wait_s=0.1)


@pytest.mark.stack
def test_a_topic_that_somebody_made_by_hand_gets_what_it_lacks(job_settings: JobSettings) -> None:
    admin = AdminClient({"bootstrap.servers": job_settings.kafka_bootstrap})
    flow = replace(FLOW, event_types=(*FLOW.event_types, EventType("by_hand")))
    admin.create_topics([NewTopic("event.by_hand.v1", 4, 1)])["event.by_hand.v1"].result()
    assert "event.by_hand.v1" not in ensure_topics(flow, job_settings)
    # a broker shows a change a moment after the controller has confirmed it
    eventually(lambda: _config(admin, "event.by_hand.v1", "retention.ms") == "-1", within_s=120)
    assert _config(admin, "event.by_hand.v1", "message.timestamp.type") == "LogAppendTime"


@pytest.mark.stack
def test_topics_are_made_once_and_mended(
    job_settings: JobSettings, caplog: pytest.LogCaptureFixture
) -> None:
    ensure_topics(FLOW, job_settings)
    assert ensure_topics(FLOW, job_settings) == []
    admin = AdminClient({"bootstrap.servers": job_settings.kafka_bootstrap})
    topics = admin.list_topics(timeout=10).topics
    assert {topic.name for topic in FLOW.topics()} <= set(topics)
    assert len(topics["event.reading.v1"].partitions) == 4
    assert len(topics["job.status.v1"].partitions) == 1
    assert _config(admin, "event.reading.v1", "retention.ms") == "-1"
    assert _config(admin, "state.device.v1", "cleanup.policy") == "compact"

    more = job_settings.model_copy(update={"partitions": 5})
    with caplog.at_level(logging.WARNING):
        ensure_topics(replace(FLOW, ingest_retention_days=31), more)
    assert "topic event.reading.v1 has 4 partitions, the settings say 5" in caplog.text
    assert "topic ingest.telemetry.v1 has retention.ms=" in caplog.text
    assert len(admin.list_topics(timeout=10).topics["event.reading.v1"].partitions) == 4
    # which `doctor` tells
    assert [told for told in other_configs(admin, FLOW) if "reading" in told] == []
    others = other_configs(admin, replace(FLOW, ingest_retention_days=31))
    assert "ingest.telemetry.v1 has retention.ms=2592000000, not 2678400000" in others


def _config(admin: AdminClient, topic: str, name: str) -> str | None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    value: str | None = admin.describe_configs([resource])[resource].result()[name].value
    return value
