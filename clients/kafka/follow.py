"""Topics that a process follows for itself, from where it likes."""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from clients.kafka.connect import reader
from clients.kafka.messages import is_end, position_of
from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Offsets, Partition, by_topic
from shared.kafka_access import KafkaAccess

_ALL_S = 60.0
_WAIT_S = 0.02  # which is waited whole where less comes than asked for
_RECORDS_AT_ONCE = 10_000


class LogFollower:
    """Every call raises KafkaException where no broker answers."""

    def __init__(self, kafka: KafkaAccess, group: str, topics: Collection[str]) -> None:
        self._log = LogOffsets(kafka, group, topics)
        self._reading = reader(kafka, group, {"auto.offset.reset": "earliest"})
        self.next: dict[Partition, int] = {}

    def go_on_from(self, starts: Mapping[Partition, int]) -> None:
        """Begins with the partitions that are not followed yet: where `starts` says, or else where
        their logs begin."""
        if new := [at for at in self._log.partitions() if at not in self.next]:
            for at, low in self._log.begins(new).items():
                self.next[at] = max(low, starts.get(at, low))
            self._assign()

    def start_from(self, starts: Mapping[Partition, int]) -> None:
        """Begins there with all partitions, also with those that it follows."""
        self.next.clear()
        self.go_on_from(starts)

    def to_the_end(self, within_s: float = _ALL_S) -> Iterator[Message]:
        """All that was written until now. Where there is no time for it, the next call goes on."""
        ends = self.ends()
        self._begin_again_where_it_was_cut(ends)
        give_up_s = time.monotonic() + within_s
        while self.is_behind(ends):
            if time.monotonic() > give_up_s:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            yield from self.take(_RECORDS_AT_ONCE, _WAIT_S)

    def is_behind(self, ends: Mapping[Partition, int]) -> bool:
        return any(self.next[at] < end for at, end in ends.items() if at in self.next)

    def take(self, count: int = _RECORDS_AT_ONCE, wait_s: float = 0) -> Iterator[Message]:
        """What is there."""
        found = self._reading.consume(count, wait_s)
        done = 0
        try:
            for message in found:
                ends = is_end(message)
                place = position_of(message)
                if not ends:
                    yield message
                # where a partition ends, what was skipped is compacted away
                self.next[place.topic, place.partition] = place.offset + (not ends)
                done += 1
        finally:
            if done < len(found):  # or what was fetched behind it would be passed over
                self._assign()

    def _begin_again_where_it_was_cut(self, ends: Mapping[Partition, int]) -> None:
        """Reads partitions from their begins that have become shorter than what was read, as those
        of a topic that was made anew."""
        if cut := [at for at, end in ends.items() if self.next.get(at, 0) > end]:
            self.next |= self._log.begins(cut)
            self._assign()

    def _assign(self) -> None:
        self._reading.assign([TopicPartition(*at, offset) for at, offset in self.next.items()])

    def ends(self) -> dict[Partition, int]:
        return self._log.ends()

    def offsets(self) -> Offsets:
        """How far it is."""
        return by_topic(self.next)

    def close(self) -> None:
        self._log.close()
        self._reading.close()


def whole_log(
    kafka: KafkaAccess, group: str, topics: Collection[str], within_s: float = _ALL_S
) -> Iterator[Message]:
    """All that stands on these topics now."""
    with closing(LogFollower(kafka, group, topics)) as log:
        log.go_on_from({})
        yield from log.to_the_end(within_s)
