"""What a real Kafka says of a topic that is widened."""

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from clients.kafka.offsets import LogOffsets
from local_stack.run.stack import Stack
from local_stack.terminal.errors import StackError
from local_stack.topics.widened_log import WidenedLog
from shared.consumer_groups import of_job
from shared.kafka_access import KafkaAccess

pytestmark = pytest.mark.stack

TOPIC, JOB = "ingest.widened_log.v1", "test-widened-log"


def test_it_tells_what_is_unread_and_gets_its_partitions_once(parts: Stack) -> None:
    options = {"bootstrap.servers": parts.kafka_bootstrap, "log_level": 2}
    admin = AdminClient(options)
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(60)
    kafka = KafkaAccess(parts.kafka_bootstrap)
    producer = Producer({**options, "acks": "all"})
    for number in range(5):
        producer.produce(TOPIC, b"value", partition=number % 2)
    producer.flush(30)
    with WidenedLog(kafka, TOPIC, [JOB]) as log, LogOffsets(kafka, of_job(JOB), [TOPIC]) as group:
        ends = log.ends()
        assert (log.count(), ends) == (2, {(TOPIC, 0): 3, (TOPIC, 1): 2})
        assert log.unread(ends) == {JOB: 5}
        group.commit({TOPIC: {0: 3, 1: 1}}, "")
        assert log.unread(ends) == {JOB: 1}
        log.widen(4)
        assert log.count() == 4
        assert log.ends() == {**ends, (TOPIC, 2): 0, (TOPIC, 3): 0}
        with pytest.raises(StackError, match=f"Kafka did not give {TOPIC} 3 partitions: "):
            log.widen(3)
    with WidenedLog(kafka, "ingest.nowhere.v1", [JOB]) as log:
        assert log.count() is None
