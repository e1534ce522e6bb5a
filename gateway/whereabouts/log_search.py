"""Short stretches of the log, for one question: never more than a bounded number of records and of
bytes, nor for longer than a few seconds."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from clients.kafka.connect import answering
from clients.kafka.messages import record_of
from clients.kafka.records import LogRange, Partition, Record
from gateway.kafka_writer.partition_of_key import partition_of
from gateway.whereabouts.log_clients import LogClients
from shared.errors import LogCutError, StalledError
from shared.events import envelope
from shared.events.envelope import Position
from shared.kafka_access import KafkaAwayError
from shared.timestamps import is_time_ms, to_rfc3339

# A gateway gives the id, then Kafka the time. Most come within a second or two; the clocks may
# differ, and what lay in a spool came later than all of this.
WINDOWS_MS = (20, 200), (500, 2_000), (5_000, 30_000)  # before and after it
RECORDS_MAX = 20_000
BYTES_MAX = 32 * 1024 * 1024
_SECONDS_MAX = 10.0
_UUID_7 = re.compile("([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
FOR_CERTAIN = "the place on its receipt, topic/partition/offset, finds it for certain"


class TooMuch(Exception):  # noqa: N818 - it is an answer
    """There lies more than one question may look through."""


class Searched(NamedTuple):
    record: Record | None
    how: str


def time_of(event_id: str) -> int | None:
    """Epoch milliseconds, of an id that a gateway has made; None where it tells no time, as one
    that was made of an Idempotency-Key."""
    found = _UUID_7.fullmatch(event_id)
    time_ms = int(found[1] + found[2], 16) if found else 0
    widest_ms = max(before_ms for before_ms, _ in WINDOWS_MS)
    return time_ms if time_ms > widest_ms and is_time_ms(time_ms + 60_000) else None


def has_id(record: Record, event_id: str) -> bool:
    return envelope.text(record.headers, envelope.ID) == event_id


class LogSearch:
    """KafkaAwayError where no broker answers. One question's own."""

    def __init__(self, clients: LogClients) -> None:
        self._clients = clients
        self._log = clients.offsets
        self._until_s = time.monotonic() + _SECONDS_MAX

    def has_time(self) -> bool:
        return time.monotonic() < self._until_s

    def at(self, places: Iterable[Position]) -> Mapping[Position, Record]:
        """Those that are there."""
        with answering(self._clients.kafka):
            return self._clients.single.read(places)

    def payload(
        self, topics: Iterable[str], time_ms: int, is_meant: Callable[[Record], bool]
    ) -> Searched:
        """About the time that its id tells."""
        how, topics = "", [*topics]
        for before_ms, after_ms in WINDOWS_MS:
            begin_ms, end_ms = time_ms - before_ms, time_ms + after_ms
            about = f"between {to_rfc3339(begin_ms)} and {to_rfc3339(end_ms)}"
            try:
                for record in self.between(topics, begin_ms, end_ms):
                    if is_meant(record):
                        return Searched(record, "")
            except TooMuch:
                too_much = f"too much was accepted {about} to be looked through"
                how = "; ".join(filter(None, (how, too_much)))
                return Searched(None, f"{how}: {FOR_CERTAIN}")
            how = f"no payload that came {about} has it (what lay in a gateway's spool comes later)"
        return Searched(None, f"{how}: {FOR_CERTAIN}")

    def between(
        self,
        topics: Iterable[str],
        begin_ms: int,
        end_ms: int,
        key: bytes | None = None,
    ) -> Iterator[Record]:
        """TooMuch where more lies there. `key`: that of whoever's records are looked for, in whose
        partitions they are."""
        yield from self.read(self.ranges(dict.fromkeys(topics, (begin_ms, end_ms)), key))

    def ranges(
        self, windows_ms: Mapping[str, tuple[int, int]], key: bytes | None = None
    ) -> list[LogRange]:
        """What lies between two times, by topic. TooMuch where no time is left."""
        if not self.has_time():
            raise TooMuch
        with answering(self._clients.kafka):
            places = self._partitions(windows_ms, None if key is None else [key])
            since = self._log.since({at: windows_ms[at[0]][0] for at in places})
            begins = {at: begin for at, begin in since.items() if begin is not None}
            after = self._log.since({at: windows_ms[at[0]][1] + 1 for at in begins})
            ends = {at: end for at, end in after.items() if end is not None}
            ends |= self._log.ends(begins.keys() - ends.keys())
        return [LogRange(*at, begin, ends[at]) for at, begin in begins.items()]

    def latest(self, topic: str, keys: Sequence[bytes]) -> Iterator[Record]:
        """All that a compacted topic has in the partitions of these keys."""
        with answering(self._clients.kafka):
            ranges = self._log.ranges(self._partitions([topic], keys))
        yield from self.read([LogRange(*at, *its) for at, its in ranges.items()])

    def enrich_goes_on_at(self, place: Position) -> int | None:
        """None where it has not begun there."""
        its = place.topic, place.partition
        with answering(self._clients.kafka):
            return self._clients.enrich.known_positions([its]).get(its)

    def _partitions(self, topics: Iterable[str], keys: Sequence[bytes] | None) -> list[Partition]:
        counts = self._clients.partition_counts()
        return partitions_in({topic: counts[topic] for topic in topics if topic in counts}, keys)

    def read(self, ranges: Iterable[LogRange], key: bytes | None = None) -> Iterator[Record]:
        """The records of that key, or all. TooMuch."""
        ranges = [one for one in ranges if one.records > 0]
        if sum(one.records for one in ranges) > RECORDS_MAX:
            raise TooMuch
        if not ranges:
            return
        size_bytes = 0
        try:
            with answering(self._clients.kafka):
                for messages in self._clients.ranges.read(ranges):
                    for message in messages:
                        if key is None or message.key() == key:
                            yield record_of(message)
                        size_bytes += len(message)
                        if size_bytes > BYTES_MAX or not self.has_time():
                            raise TooMuch
        except (StalledError, LogCutError) as error:
            told = f"Kafka at {self._clients.kafka.bootstrap} gives no records: {error}"
            raise KafkaAwayError(told) from error


def partitions_in(counts: Mapping[str, int], keys: Sequence[bytes] | None) -> list[Partition]:
    """Those of these keys; None: all."""
    if keys is None:
        return [(topic, p) for topic, count in counts.items() for p in range(count)]
    return [
        (topic, p)
        for topic, count in counts.items()
        for p in sorted({partition_of(key, count) for key in keys})
    ]
