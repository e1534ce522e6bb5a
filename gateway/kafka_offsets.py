"""Where partitions start and end. Blocks, for a bounded time."""

import logging
from collections.abc import Collection
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

Partition = tuple[str, int]

# librdkafka would write its complaints about an absent broker to the terminal
QUIET = logging.getLogger("librdkafka")
QUIET.setLevel(logging.CRITICAL)


def start_offsets(
    admin: AdminClient, partitions: Collection[Partition], deadline_s: float
) -> dict[Partition, int]:
    return _offsets(admin, partitions, OffsetSpec.earliest(), deadline_s)  # type: ignore[no-untyped-call]


def end_offsets(
    admin: AdminClient, partitions: Collection[Partition], deadline_s: float
) -> dict[Partition, int]:
    return _offsets(admin, partitions, OffsetSpec.latest(), deadline_s)  # type: ignore[no-untyped-call]


def _offsets(
    admin: AdminClient, partitions: Collection[Partition], spec: Any, deadline_s: float
) -> dict[Partition, int]:
    if not partitions:
        return {}
    asked = admin.list_offsets(
        {TopicPartition(topic, p): spec for topic, p in partitions},
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=deadline_s,
    )
    return {
        (at.topic, at.partition): answer.result(deadline_s + 0.5).offset
        for at, answer in asked.items()
    }
