"""What was tried of webhooks, of all of them: forward writes it down, a record for each try."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import orjson

from clients.kafka.connect import answering
from clients.kafka.offsets import LogOffsets
from clients.kafka.read_range import RangeReader
from clients.kafka.records import LogRange
from shared.consumer_groups import DESK
from shared.kafka_access import KafkaAccess
from shared.topic_names import DELIVERY_TOPIC

_READ_S = 30.0


def deliveries(kafka: KafkaAccess, since_ms: int) -> Iterator[dict[str, Any]]:
    """KafkaAwayError where it does not answer."""
    with answering(kafka), LogOffsets(kafka, DESK, [DELIVERY_TOPIC]) as log:
        ends = log.ends()
        since = log.since(dict.fromkeys(ends, since_ms))
    its = [
        LogRange(*at, first, ends[at])
        for at, first in since.items()
        if first is not None and first < ends[at]
    ]
    with answering(kafka), closing(RangeReader(kafka, DESK, _READ_S)) as reader:
        for messages in reader.read(its):
            yield from (orjson.loads(one.value() or b"{}") for one in messages)
