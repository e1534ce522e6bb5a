"""A few records straight from a driver to Kafka, before its query begins."""

from collections.abc import Iterable

from confluent_kafka import Producer

from clients.kafka.records import Outgoing
from shared.settings import JobSettings

_FLUSH_S = 60.0


def publish(settings: JobSettings, records: Iterable[Outgoing]) -> int:
    """How many; RuntimeError unless Kafka has confirmed all of them."""
    producer = Producer(
        {
            **settings.kafka.for_librdkafka(),
            "acks": "all",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "message.max.bytes": 64 * 1024 * 1024,  # how large one may be is for the topic to say
            "log_level": 2,
        }
    )
    failures: list[str] = []
    count = 0
    for record in records:
        producer.produce(
            record.topic,
            record.value,
            record.key,
            headers=list(record.headers),
            on_delivery=lambda error, _message: failures.append(str(error)) if error else None,
        )
        producer.poll(0)
        count += 1
    left = producer.flush(_FLUSH_S)
    if left or failures:
        why = failures[0] if failures else "Kafka has not confirmed them in time"
        raise RuntimeError(f"{left + len(failures)} of {count} records are not published: {why}")
    return count
