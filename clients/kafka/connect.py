"""How each client of Kafka is set up: one that reads, one that only asks, one that writes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from shared.kafka_access import KafkaAccess, KafkaAwayError

# librdkafka would write its complaints about a broker that is away to the terminal
_QUIET = {"log_level": 2}
# a small request that follows another waits up to 40 ms for the answer to that one
_PROMPT = {"socket.nagle.disable": True}
Options = Mapping[str, Any]


def reader(kafka: KafkaAccess, group: str, options: Options | None = None) -> Consumer:
    """Its partitions are assigned. It says where a partition ends."""
    return Consumer(
        {
            **kafka.for_reading(group),
            "enable.partition.eof": True,
            "auto.offset.reset": "error",  # what is not there any more must not be passed over
            "check.crcs": True,  # the broker does not
            "fetch.wait.max.ms": 100,
            "queued.max.messages.kbytes": 16 * 1024,
            **_QUIET,
            **_PROMPT,
            **(options or {}),
        }
    )


def asker(kafka: KafkaAccess, group: str, options: Options | None = None) -> Consumer:
    """On a client that reads, too, each question would wait behind a fetch."""
    return Consumer({**kafka.for_reading(group), **_QUIET, **_PROMPT, **(options or {})})


def writer(kafka: KafkaAccess, options: Options | None = None) -> Producer:
    """Whoever writes, a key's records go to the same partition."""
    return Producer(
        {
            **kafka.for_librdkafka(),
            "acks": "all",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            # how large a record may be is for the topic to say
            "message.max.bytes": 64 * 1024 * 1024,
            "topic.metadata.propagation.max.ms": 5_000,
            **_QUIET,
            **(options or {}),
        }
    )


@contextmanager
def answering(kafka: KafkaAccess) -> Iterator[None]:
    """KafkaAwayError where it does not answer."""
    try:
        yield
    except KafkaException as error:
        said = error.args[0].str()
        raise KafkaAwayError(f"Kafka at {kafka.bootstrap} does not answer: {said}") from error


def admin(kafka: KafkaAccess) -> AdminClient:
    """Where its broker goes away, librdkafka can abort the whole process (`Assertion ... failed` in
    `rd_kafka_enq_once_del_source_return`): only for what no consumer can ask."""
    return AdminClient({**kafka.for_librdkafka(), **_QUIET})
