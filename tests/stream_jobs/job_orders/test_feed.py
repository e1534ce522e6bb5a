"""Orders on a real broker."""

import time
from pathlib import Path

import pytest

from clients.kafka.create_topics import ensure_topics
from clients.kafka.records import Outgoing
from clients.kafka.write import write_now
from local_stack.run.stack import Stack
from shared.flow import FLOW
from shared.kafka_access import KafkaAccess
from shared.published.job_orders import JobOrder, Wanted
from shared.settings import JobSettings
from shared.topic_names import JOB_ORDER_TOPIC
from stream_jobs.job_orders.feed import OrderFeed, OrdersUnknownError
from tests.kafka_log import eventually

pytestmark = pytest.mark.stack


def write(settings: JobSettings, job: str, raw: bytes | None) -> None:
    write_now(settings.kafka, Outgoing(JOB_ORDER_TOPIC, job.encode(), raw, []))


def test_the_last_order_stands_and_what_is_none_is_passed_over(
    empty_kafka: Stack, tmp_path: Path
) -> None:
    settings = JobSettings(kafka_bootstrap=empty_kafka.kafka_bootstrap, state_dir=tmp_path)
    # a version that knows no orders has made no topic for them
    assert OrderFeed(settings.kafka).of("fold") is None
    ensure_topics(FLOW, settings)
    feed = OrderFeed(settings.kafka)
    assert feed.of("fold") is None
    order = JobOrder(order=Wanted.PAUSE, by="ann", at_ms=1)
    write(settings, "fold", order.to_record())
    write(settings, "persist", b"whatever")
    eventually(lambda: feed.of("fold") == order)
    assert feed.of("persist") is None
    assert OrderFeed(settings.kafka).of("fold") == order
    write(settings, "fold", b"{}")
    eventually(lambda: feed.of("fold") is None)
    before = feed.resumes("fold")
    write(settings, "fold", order.to_record())
    write(settings, "fold", None)
    assert OrderFeed(settings.kafka).of("fold") is None
    eventually(lambda: feed.of("fold") is None and feed.resumes("fold") == before + 1)
    assert feed.resumes("persist") == 0


def test_what_was_known_stands_while_kafka_is_away(empty_kafka: Stack, tmp_path: Path) -> None:
    settings = JobSettings(kafka_bootstrap=empty_kafka.kafka_bootstrap, state_dir=tmp_path)
    ensure_topics(FLOW, settings)
    order = JobOrder(order=Wanted.PAUSE, by="ann", at_ms=1)
    write(settings, "fold", order.to_record())
    feed = OrderFeed(settings.kafka)
    eventually(lambda: feed.of("fold") == order)
    empty_kafka.hold("kafka")
    try:
        time.sleep(1.5)  # then it looks
        assert feed.of("fold") == order
        with pytest.raises(OrdersUnknownError):
            OrderFeed(KafkaAccess(settings.kafka.bootstrap)).of("fold")
    finally:
        empty_kafka.release("kafka")
