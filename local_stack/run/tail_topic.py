"""The last records of a topic, so that the reason of a dead letter can be seen."""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from clients.kafka.messages import record_of
from clients.kafka.offsets import LogOffsets
from clients.kafka.read_range import RangeReader
from clients.kafka.records import LogRange, Record
from local_stack.servers.kafka import asking_kafka
from local_stack.terminal.errors import StackError
from local_stack.terminal.printable import as_text, printable
from shared.consumer_groups import OPERATOR
from shared.kafka_access import KafkaAccess

TIMEOUT_S = 10.0


def last_records(bootstrap: str, topic: str, count: int) -> list[Record]:
    with asking_kafka(bootstrap) as kafka:
        logs, span = _logs(kafka, topic), count
        while True:
            found = _read(kafka, topic, {p: (max(a, b - span), b) for p, (a, b) in logs.items()})
            if len(found) >= count or all(end - span <= start for start, end in logs.values()):
                break
            span *= 8  # compaction leaves holes: fewer records than offsets
    return sorted(found, key=_order)[-count:]


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
    lines = [f"{place}  {_time(record)}  key {as_text(record.key)}"]
    lines += [f"{printable(name)}: {as_text(value)}" for name, value in record.headers]
    lines += as_text(record.value).splitlines()
    return "\n  ".join(lines)


def as_document(record: Record) -> dict[str, Any]:
    """For a program: text as it is, other bytes in base64."""
    return {
        **record.position._asdict(),
        "timestamp": _time(record),
        "key": _plain(record.key),
        "headers": {name: _plain(value) for name, value in record.headers},
        "value": _plain(record.value),
    }


def _plain(value: bytes | None) -> str | dict[str, str] | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


def _time(record: Record) -> str:
    moment = datetime.fromtimestamp(record.time_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


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


def _order(record: Record) -> tuple[int, int, int]:
    return record.time_ms, record.position.partition, record.position.offset
