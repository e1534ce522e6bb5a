"""The last records of a topic, so that the reason of a dead letter can be seen."""

import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from local_stack.machine.settings_check import kafka_client
from local_stack.terminal.errors import LOOK, StackError
from local_stack.terminal.printable import as_text, printable

TIMEOUT_S = 10.0
_WITHOUT_LEADER = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
Ends = dict[int, tuple[int, int]]


def last_records(bootstrap: str, topic: str, count: int) -> list[Message]:
    with _reader(bootstrap) as reader:
        ends = _ends(reader, topic)
        span = count
        while True:
            starts = {p: max(first, end - span) for p, (first, end) in ends.items()}
            found = _read(reader, topic, starts, ends)
            at_the_start = all(starts[p] == first for p, (first, _) in ends.items())
            if len(found) >= count or at_the_start:
                break
            span *= 8  # compaction leaves holes: fewer records than offsets
    return sorted(found, key=_order)[-count:]


def all_records(bootstrap: str, topic: str) -> list[Message]:
    """Those of a key in their order."""
    with _reader(bootstrap) as reader:
        ends = _ends(reader, topic)
        return _read(reader, topic, {p: first for p, (first, _) in ends.items()}, ends)


def shown(record: Message) -> str:
    place = f"{record.topic()}[{record.partition()}]@{record.offset()}"
    lines = [f"{place}  {_time(record)}  key {as_text(_bytes(record.key()))}"]
    headers: Any = record.headers() or []
    lines += [f"{printable(name)}: {as_text(_bytes(value))}" for name, value in headers]
    lines += as_text(_bytes(record.value())).splitlines()
    return "\n  ".join(lines)


def as_document(record: Message) -> dict[str, Any]:
    """For a program: text as it is, other bytes in base64."""
    headers: Any = record.headers() or []
    return {
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "timestamp": _time(record),
        "key": _plain(_bytes(record.key())),
        "headers": {name: _plain(_bytes(value)) for name, value in headers},
        "value": _plain(_bytes(record.value())),
    }


def _plain(value: bytes | None) -> str | dict[str, str] | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


def _time(record: Message) -> str:
    moment = datetime.fromtimestamp(record.timestamp()[1] / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@contextmanager
def _reader(bootstrap: str) -> Iterator[Consumer]:
    reader = Consumer(
        {
            **kafka_client(bootstrap),
            "group.id": "headrace-tail",  # required; nothing is subscribed or committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    try:
        yield reader
    except KafkaException as error:
        reason = error.args[0].str()
        raise StackError(f"Kafka at {bootstrap} does not answer: {reason}", LOOK) from error
    finally:
        reader.close()


def _ends(reader: Consumer, topic: str) -> Ends:
    """First and next offset of each partition."""
    known = reader.list_topics(timeout=TIMEOUT_S).topics
    if topic not in known:
        names = ", ".join(sorted(name for name in known if not name.startswith("__"))) or "none"
        raise StackError(f"there is no topic named {printable(topic)}", f"topics: {names}")
    places = [TopicPartition(topic, partition) for partition in known[topic].partitions]
    return {place.partition: _watermarks(reader, place) for place in places}


def _watermarks(reader: Consumer, place: TopicPartition) -> tuple[int, int]:
    """A topic that has just been made has no leader for a moment."""
    end_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return reader.get_watermark_offsets(place, TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() not in _WITHOUT_LEADER or time.monotonic() > end_s:
                raise
            time.sleep(0.1)


def _read(reader: Consumer, topic: str, starts: dict[int, int], ends: Ends) -> list[Message]:
    open_ones = {p for p, start in starts.items() if start < ends[p][1]}
    reader.assign([TopicPartition(topic, p, starts[p]) for p in open_ones])
    found = []
    while open_ones:
        message = reader.poll(TIMEOUT_S)
        if message is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        error, partition, offset = message.error(), message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        if error is None and offset < ends[partition][1]:
            found.append(message)
        if error is not None or offset >= ends[partition][1] - 1:
            open_ones.discard(partition)
    return found


def _order(record: Message) -> tuple[int, int, int]:
    return record.timestamp()[1], record.partition() or 0, record.offset() or 0


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
