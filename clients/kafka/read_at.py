"""Single records, by their places."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from clients.kafka.connect import reader
from clients.kafka.messages import is_end, record_of
from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Partition, Range, Record
from shared.events.envelope import Position
from shared.kafka_access import KafkaAccess

_TIMEOUT_S = 10.0
_READ_ON_MAX = 500  # records between two wanted ones: to seek costs more than to read these
_OPTIONS = {
    # no more than a few are wanted of a partition
    "queued.min.messages": 1,
    "fetch.message.max.bytes": 256 * 1024,
    # where the log ends, the next question would wait for the fetch of the one before
    "fetch.wait.max.ms": 5,
}


class RecordsAt:
    """Every method raises KafkaException where the broker does not answer."""

    def __init__(self, kafka: KafkaAccess, group: str, answer_s: float = _TIMEOUT_S) -> None:
        self._answer_s = answer_s
        self._log = LogOffsets(kafka, group, answer_s=answer_s)
        self._consumer = reader(kafka, group, _OPTIONS)

    def read(self, places: Iterable[Position]) -> dict[Position, Record]:
        """Those that are not found are not there any more."""
        wanted: dict[Partition, set[int]] = defaultdict(set)
        for topic, partition, offset in places:
            wanted[topic, partition].add(offset)
        there = wanted.keys() & {*self._log.partitions({topic for topic, _ in wanted})}
        return {
            record.position: record
            for at, its in self._log.ranges(there).items()
            for record in self._read(at, its, sorted(wanted[at]))
        }

    def _read(self, partition: Partition, its: Range, offsets: list[int]) -> Iterator[Record]:
        at = -_READ_ON_MAX - 1
        for offset in (offset for offset in offsets if its.start <= offset < its.end):
            if offset - at > _READ_ON_MAX:
                self._consumer.assign([TopicPartition(*partition, offset)])
            message = self._next(offset)
            if message is None:
                break  # behind the last record that can be read
            at = int(message.offset() or 0)
            if at == offset:
                yield record_of(message)
        self._consumer.unassign()

    def _next(self, offset: int) -> Message | None:
        """The first record from there on; None at the end."""
        while True:
            message = self._consumer.poll(self._answer_s)
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            if is_end(message):
                return None
            if int(message.offset() or 0) >= offset:
                return message

    def close(self) -> None:
        self._log.close()
        self._consumer.close()
