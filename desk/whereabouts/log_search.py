"""A payload in the ingest log by its id: at the place that its receipt names, or about the time
that its id tells. Never more than a bounded part of the log is read."""

import re
from collections.abc import Iterable
from contextlib import closing
from typing import NamedTuple

from clients.kafka.connect import answering
from clients.kafka.messages import record_of
from clients.kafka.offsets import LogOffsets
from clients.kafka.read_range import RangeReader
from clients.kafka.records import LogRange, Record, or_end
from shared.consumer_groups import DESK
from shared.errors import LogCutError, StalledError
from shared.events import envelope
from shared.kafka_access import KafkaAccess, KafkaAwayError
from shared.timestamps import is_time_ms, to_rfc3339

# A gateway gives the id, then Kafka the time. Most come within a second or two; the clocks may
# differ, and what lay in a spool came later than all of this.
_WINDOWS_MS = (500, 2_000), (5_000, 30_000)  # before and after it
_RECORDS_MAX = 20_000
_STALLED_S = 10
_UUID_7 = re.compile("([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_FOR_CERTAIN = "the place on its receipt, topic/partition/offset, finds it for certain"


class Searched(NamedTuple):
    record: Record | None
    how: str


def time_of(event_id: str) -> int | None:
    """Epoch milliseconds, of an id that a gateway has made; None where it tells no time, as one
    that was made of an Idempotency-Key."""
    found = _UUID_7.fullmatch(event_id)
    time_ms = int(found[1] + found[2], 16) if found else 0
    widest_ms = max(before_ms for before_ms, _ in _WINDOWS_MS)
    return time_ms if time_ms > widest_ms and is_time_ms(time_ms + 60_000) else None


def search(kafka: KafkaAccess, topics: Iterable[str], event_id: str, time_ms: int) -> Searched:
    """KafkaAwayError where no broker answers."""
    how = ""
    with answering(kafka), LogOffsets(kafka, DESK, topics) as log:
        for before_ms, after_ms in _WINDOWS_MS:
            begin_ms, end_ms = time_ms - before_ms, time_ms + after_ms
            about = f"between {to_rfc3339(begin_ms)} and {to_rfc3339(end_ms)}"
            ranges = _ranges(log, begin_ms, end_ms)
            if sum(one.records for one in ranges) > _RECORDS_MAX:
                too_much = f"too much was accepted {about} to be looked through"
                return Searched(None, f"{how or too_much}: {_FOR_CERTAIN}")
            if (record := _find(kafka, ranges, event_id)) is not None:
                return Searched(record, "")
            how = f"no payload that came {about} has it (what lay in a gateway's spool comes later)"
    return Searched(None, f"{how}: {_FOR_CERTAIN}")


def _ranges(log: LogOffsets, begin_ms: int, end_ms: int) -> list[LogRange]:
    """With something in them."""
    ends = log.ends(log.partitions())
    begins = log.since(dict.fromkeys(ends, begin_ms))
    after = log.since(dict.fromkeys(ends, end_ms + 1))
    found = []
    for at, end in ends.items():
        begin = begins[at]
        if begin is not None:
            found.append(LogRange(*at, begin, or_end(after, at, end)))
    return [one for one in found if one.records]


def _find(kafka: KafkaAccess, ranges: list[LogRange], event_id: str) -> Record | None:
    if not ranges:
        return None
    try:
        with closing(RangeReader(kafka, DESK, _STALLED_S)) as reader:
            for messages in reader.read(ranges):
                for message in messages:
                    record = record_of(message)
                    if has_id(record, event_id):
                        return record
    except (StalledError, LogCutError) as error:
        raise KafkaAwayError(f"Kafka at {kafka.bootstrap} gives no records: {error}") from error
    return None


def has_id(record: Record, event_id: str) -> bool:
    return envelope.text(record.headers, envelope.ID) == event_id
