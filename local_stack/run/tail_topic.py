"""The last records of a topic, so that the reason of a dead letter can be seen."""

from collections.abc import Iterator, Mapping
from typing import Any

from clients.kafka.messages import record_of
from clients.kafka.offsets import LogOffsets
from clients.kafka.read_range import RangeReader
from clients.kafka.records import LogRange, Record, plain
from local_stack.servers.kafka import asking_kafka
from local_stack.terminal.errors import StackError
from local_stack.terminal.printable import as_text, printable
from shared.consumer_groups import OPERATOR
from shared.kafka_access import KafkaAccess
from shared.timestamps import to_rfc3339

TIMEOUT_S = 10.0


def last_records(bootstrap: str, topic: str, count: int) -> list[Record]:
    with asking_kafka(bootstrap) as kafka:
        logs, span = _logs(kafka, topic), count
        while True:
            found = _read(kafka, topic, {p: (max(a, b - span), b) for p, (a, b) in logs.items()})
            if len(found) >= count or all(end - span <= start for start, end in logs.values()):
                break
            span *= 8  # compaction leaves holes: fewer records than offsets
    return sorted(found, key=lambda one: (one.time_ms, one.position[1:]))[-count:]


def all_records(bootstrap: str, topic: str) -> list[Record]:
    """Those of a key in their order."""
    return list(each_record(bootstrap, topic))


def each_record(bootstrap: str, topic: str) -> Iterator[Record]:
    """The same, where they may be more than memory has room for."""
    with asking_kafka(bootstrap) as kafka:
        yield from _each(kafka, topic, _logs(kafka, topic))


def shown(record: Record) -> str:
    topic, partition, offset = record.position
    place = f"{topic}[{partition}]@{offset}"
    lines = [f"{place}  {to_rfc3339(record.time_ms)}  key {as_text(record.key)}"]
    lines += [f"{printable(name)}: {as_text(value)}" for name, value in record.headers]
    lines += as_text(record.value).splitlines()
    return "\n  ".join(lines)


def as_document(record: Record) -> dict[str, Any]:
    return {
        **record.position._asdict(),
        "timestamp": to_rfc3339(record.time_ms),
        "key": plain(record.key),
        "headers": {name: plain(value) for name, value in record.headers},
        "value": plain(record.value),
    }


def _logs(kafka: KafkaAccess, topic: str) -> dict[int, tuple[int, int]]:
    """First and next offset of each partition."""
    with LogOffsets(kafka, OPERATOR, [topic], TIMEOUT_S) as log:
        known = log.metadata()
        if topic not in known:
            names = ", ".join(sorted(name for name in known if not name.startswith("__"))) or "none"
            raise StackError(f"there is no topic named {printable(topic)}", f"topics: {names}")
        return {partition: its for (_, partition), its in log.ranges().items()}


def _read(kafka: KafkaAccess, topic: str, logs: Mapping[int, tuple[int, int]]) -> list[Record]:
    return list(_each(kafka, topic, logs))


def _each(kafka: KafkaAccess, topic: str, logs: Mapping[int, tuple[int, int]]) -> Iterator[Record]:
    its = [LogRange(topic, p, start, end) for p, (start, end) in logs.items() if start < end]
    consumer = RangeReader(kafka, OPERATOR, TIMEOUT_S)
    try:
        yield from (record_of(message) for some in consumer.read(its) for message in some)
    finally:
        consumer.close()
