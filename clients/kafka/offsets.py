"""Where partitions start and end. Blocks, for a bounded time.

Asked by a consumer, not by an admin client: librdkafka's admin requests can abort the whole process
when their broker goes away (`rd_kafka_enq_once_del_source_return: Assertion ... failed`).
"""

import logging
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from shared.kafka_access import KafkaAccess

Partition = tuple[str, int]

# librdkafka would write its complaints about an absent broker to the terminal
QUIET = logging.getLogger("librdkafka")
QUIET.setLevel(logging.CRITICAL)


class Range(NamedTuple):
    start: int
    end: int


def asking_consumer(
    kafka: KafkaAccess,
    on_error: Callable[[KafkaError], None] | None = None,
    group: str = "headrace-gateway",
) -> Consumer:
    """It only asks: on one that reads, too, each question would wait behind a fetch. `on_error` is
    called from within its `poll`."""
    return Consumer(
        {
            **kafka.for_librdkafka(),
            "group.id": group,  # has to be there, is never joined
            # not QUIET: its lines would pile up, because nobody polls this consumer
            "log_level": 0,
            "socket.timeout.ms": 2000,
            "reconnect.backoff.max.ms": 1000,
            **({"error_cb": on_error} if on_error else {}),
        }
    )


def offset_ranges(
    consumer: Consumer, partitions: Iterable[Partition], deadline_s: float
) -> dict[Partition, Range]:
    """KafkaException or TimeoutError where they are not all known within the deadline."""
    give_up_s = time.monotonic() + deadline_s
    ranges: dict[Partition, Range] = {}
    for topic, p in partitions:
        left_s = give_up_s - time.monotonic()
        # without an answer in time the call returns None, or raises
        known = left_s > 0 and consumer.get_watermark_offsets(TopicPartition(topic, p), left_s)
        if not known:
            raise TimeoutError(f"{topic}/{p}: no answer within {deadline_s} s")
        ranges[topic, p] = Range(*known)
    return ranges
