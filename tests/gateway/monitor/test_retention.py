import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from clients.kafka.offsets import Range
from gateway.monitor.kafka_facts import look_at_facts
from gateway.monitor.retention import Keeps, RetentionLook, keeps, share
from local_stack.run.stack import Stack
from shared.kafka_access import KafkaAccess
from tests.gateway.support import until

FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1"}
LOG = Range(100, 200)
DAY = Keeps(86_400_000, None)


def test_what_is_kept_for_ever_or_compacted_has_no_end() -> None:
    assert keeps(FOR_EVER) is None
    assert keeps({"cleanup.policy": "compact", "retention.ms": "1000"}) is None
    assert keeps({"cleanup.policy": "delete", "retention.ms": "1000"}) == Keeps(1000, None)
    assert keeps({**FOR_EVER, "retention.bytes": "5"}) == Keeps(None, 5)
    assert keeps({"cleanup.policy": "compact,delete", "retention.ms": "7"}) == Keeps(7, None)


@pytest.mark.parametrize(
    ("committed", "expected"), [(199, 0.0), (150, 0.0), (149, 0.5), (120, 0.5), (119, 0.9)]
)
def test_a_record_that_waits_for_half_of_its_time_is_half_gone(
    committed: int, expected: float
) -> None:
    assert share(committed, LOG, {0.5: 150, 0.9: 120}, None, DAY) == expected


def test_a_job_with_nothing_to_read_loses_nothing_however_old_its_topic_is() -> None:
    assert share(200, LOG, {0.5: 200, 0.9: 200}, 10**9, Keeps(1, 1)) == 0.0
    assert share(None, Range(7, 7), {0.5: 7, 0.9: 7}, 0, Keeps(1, 1)) == 0.0


def test_a_job_that_has_never_read_has_all_to_read() -> None:
    assert share(None, LOG, {0.5: 101, 0.9: 100}, None, DAY) == 0.5


def test_what_is_gone_already_is_all_of_it() -> None:
    assert share(99, LOG, {}, None, DAY) == 1.0


def test_a_log_that_grows_too_large_drives_out_what_is_unread() -> None:
    by_size = Keeps(None, 10_000)
    assert share(150, LOG, {}, 8_000, by_size) == 0.4
    assert share(100, LOG, {}, 9_500, by_size) == 0.95
    assert share(100, LOG, {}, 30_000, by_size) == 1.0
    assert share(100, LOG, {}, None, by_size) == 0.0  # Kafka does not tell


TOPIC = "short-lived"


@pytest.fixture
def short_lived(broker: Stack) -> None:
    """A topic of its own: what others have written counts, and must not be deleted."""
    config = {"retention.ms": "6000", "retention.bytes": "100000"}
    admin = AdminClient({"bootstrap.servers": broker.kafka_bootstrap})
    admin.create_topics([NewTopic(TOPIC, 4, 1, config=config)])[TOPIC].result(30)


@pytest.mark.stack
@pytest.mark.usefixtures("short_lived")
def test_a_stopped_job_is_told_long_before_its_records_are_deleted(broker: Stack) -> None:
    kafka = KafkaAccess(broker.kafka_bootstrap)
    look = RetentionLook(kafka, {"enrich": [TOPIC, "event.reading.v1"]})
    producer = Producer({"bootstrap.servers": broker.kafka_bootstrap})

    def worst() -> float:
        facts = look_at_facts(kafka, [TOPIC, "event.reading.v1", "none.v1"])
        found = look.look(facts, {TOPIC: range(4), "event.reading.v1": range(4)})
        assert {(one.job, one.topic) for one in found} == {("enrich", TOPIC)}
        return max(one.share for one in found)

    def told_at(share: float, age_s: float) -> None:
        """Once the record is so old, and not before; a look takes its time, too."""
        told = 0.0
        while told < share:
            asked_s = time.monotonic()
            told = worst()
            assert told >= share or asked_s - written_s < age_s + 0.1
            time.sleep(0.05)
        assert time.monotonic() - began_s >= age_s

    _read_all(broker, "headrace-enrich")
    assert worst() == 0.0
    began_s = time.monotonic()
    producer.produce(TOPIC, b"{}", b"a", partition=1)
    producer.flush(60)
    written_s = time.monotonic()
    told_at(0.5, age_s=3.0)
    told_at(0.9, age_s=5.4)
    _read_all(broker, "headrace-enrich")
    assert worst() == 0.0  # idle: what is old was read
    for _ in range(8):
        producer.produce(TOPIC, b"x" * 9_000, b"a", partition=2)
    producer.flush(60)
    until(lambda: 0.6 < worst() < 0.9, 4)  # 72 kB of 100 kB


def _read_all(broker: Stack, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": broker.kafka_bootstrap, "group.id": group})
    places = [TopicPartition(TOPIC, p) for p in range(4)]
    for at in places:
        until(lambda at=at: _has_leader(consumer, at), 20)  # type: ignore[misc]
        at.offset = consumer.get_watermark_offsets(at, 10)[1]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def _has_leader(consumer: Consumer, at: TopicPartition) -> bool:
    try:
        return consumer.get_watermark_offsets(at, 10) is not None
    except KafkaException:  # just made
        return False
