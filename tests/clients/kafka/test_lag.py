import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from clients.kafka.lag import Lag, LagReader, UnreadRecords, unread
from clients.kafka.records import Range
from local_stack.run.stack import Stack
from shared.settings import JobSettings


def test_what_is_unread_begins_where_the_job_or_the_log_does() -> None:
    ranges = {("a", 0): Range(0, 10), ("a", 1): Range(5, 9), ("b", 0): Range(3, 3)}
    assert unread({"a": {0: 4, 1: 2}}, ranges) == {
        ("a", 0): UnreadRecords(4, 6),
        ("a", 1): UnreadRecords(5, 4),
    }
    assert unread({"a": {0: 10, 1: 9}}, ranges) == {}


@pytest.mark.stack
def test_the_oldest_unread_record_says_how_far_a_job_is_behind(parts: Stack) -> None:
    topic, now_ms = "test.lag.v1", time.time_ns() // 1_000_000
    admin = AdminClient({"bootstrap.servers": parts.kafka_bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": parts.kafka_bootstrap})
    for age_s in (300, 200, 100):
        producer.produce(topic, b"x", partition=0, timestamp=now_ms - age_s * 1000)
    producer.produce(topic, b"x", partition=1, timestamp=now_ms - 250_000)
    producer.flush(60)
    reader = LagReader(JobSettings(kafka_bootstrap=parts.kafka_bootstrap).kafka, "headrace-test")
    ranges = {(topic, 0): Range(0, 3), (topic, 1): Range(0, 1)}

    def behind(at: dict[int, int]) -> tuple[int, float]:
        lag = reader.lag(unread({topic: at}, ranges))
        assert lag.seconds is not None
        return lag.records, lag.seconds

    for _ in range(2):
        records, seconds = behind({})
        assert records == 4 and 300 <= seconds < 330
    records, seconds = behind({0: 2, 1: 0})
    assert records == 2 and 250 <= seconds < 280
    told = reader.lag(unread({topic: {0: 1}}, ranges)).told()["partitions"][topic]
    (records, seconds), (others, longer) = told["0"], told["1"]
    assert (records, others) == (2, 1) and 200 <= seconds < 230 and 250 <= longer < 280
    assert reader.lag(unread({topic: {0: 3, 1: 1}}, ranges)) == Lag(0, 0.0)
    reader.close()
