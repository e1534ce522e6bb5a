import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from clients.kafka.read_at import RecordsAt
from local_stack.run.stack import Stack
from shared.events.envelope import Position
from shared.kafka_access import KafkaAccess

TOPIC = "ingest.origins.v1"


pytestmark = pytest.mark.stack


def test_single_records_are_read_where_they_came_and_those_that_are_gone_are_not(
    parts: Stack,
) -> None:
    access = {"bootstrap.servers": parts.kafka_bootstrap}
    admin, producer = AdminClient(access), Producer({**access, "linger.ms": 50})
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(30)
    for number in range(2_000):
        headers: list[tuple[str, str | bytes | None]] = [("n", b"%d" % number), ("none", None)]
        producer.produce(TOPIC, b"v%d" % number, b"k", partition=number % 2, headers=headers)
    assert producer.flush(30) == 0
    gone = [TopicPartition(TOPIC, 0, 10)]
    for future in admin.delete_records(gone).values():
        future.result(30)
    there = [Position(TOPIC, p, offset) for p in (0, 1) for offset in (10, 11, 14, 700, 999)]
    absent = [Position(TOPIC, 0, 9), Position(TOPIC, 1, 1_000), Position(TOPIC, 7, 0)]
    elsewhere = [Position("ingest.nowhere.v1", 0, 0)]
    origins = RecordsAt(KafkaAccess(bootstrap=parts.kafka_bootstrap), "headrace-tail")
    try:
        for _ in range(2):
            found = origins.read([*there, *absent, *elsewhere])
            assert found.keys() == set(there)
            for place, record in found.items():
                number = place.offset * 2 + place.partition
                assert (record.position, record.value) == (place, b"v%d" % number)
                assert record.headers == [("n", b"%d" % number), ("none", b"")]
                assert record.time_ms > 0
    finally:
        origins.close()
