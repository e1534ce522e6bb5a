from dataclasses import replace

import pytest
from confluent_kafka import Producer

from clients.kafka.create_topics import ensure_topics
from shared.errors import StaleMasterDataError
from shared.flow import load_flow
from shared.settings import JobSettings
from stream_jobs.enrich.state_look_up import StateLookUp
from tests.kafka_log import eventually

pytestmark = pytest.mark.stack

TOPICS = {"device": "state.device.v1", "area": "state.area.v1"}


def _publish(settings: JobSettings, key: str, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": settings.kafka_bootstrap})
    producer.produce(TOPICS["device"], value, key)
    assert producer.flush(60) == 0


def test_the_last_states_are_found_and_what_comes_since(job_settings: JobSettings) -> None:
    ensure_topics(load_flow(), job_settings)
    _publish(job_settings, "d-1", b"one")
    _publish(job_settings, "d-2", b"one")
    when_asked = StateLookUp(job_settings.kafka, TOPICS, at_once=False)
    at_once = StateLookUp(job_settings.kafka, TOPICS, at_once=True)
    when_asked.refresh()
    at_once.refresh()
    _publish(job_settings, "d-1", b"two")
    _publish(job_settings, "d-2", None)
    # loaded before that, and loaded now
    assert at_once.find("device", "d-1") == b"one"
    assert (when_asked.find("device", "d-1"), when_asked.find("device", "d-2")) == (b"two", None)
    assert when_asked.find("area", "d-1") is None

    def has_changed() -> bool:
        at_once.refresh()
        return (at_once.find("device", "d-1"), at_once.find("device", "d-2")) == (b"two", None)

    eventually(has_changed)
    _publish(job_settings, "d-1", b"three")
    at_once.catch_up()
    assert at_once.find("device", "d-1") == b"three"


def test_without_kafka_the_job_waits_and_where_nothing_is_looked_at_nothing_is_asked(
    job_settings: JobSettings,
) -> None:
    nowhere = replace(job_settings.kafka, bootstrap="127.0.0.1:1")
    StateLookUp(nowhere, {}, at_once=True).refresh()
    with pytest.raises(StaleMasterDataError, match="Kafka is away"):
        StateLookUp(nowhere, TOPICS, at_once=False).find("device", "d-1")
