"""Single records, by their places."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from clients.kafka.connect import reader
from clients.kafka.messages import ANOTHER_LOG, is_end, record_of
from clients.kafka.records import Partition, Record
from shared.events.envelope import Position
from shared.kafka_access import KafkaAccess

_TIMEOUT_S = 10.0
_KNOWN_FOR_S = 5.0  # partitions of a topic
_READ_ON_MAX = 500  # records between two wanted ones: to seek costs more than to read these
_OPTIONS = {
    # no more than a few are wanted of a partition
    "queued.min.messages": 1,
    # as soon as these have been taken; else it waits some ms after each
    "fetch.queue.backoff.ms": 1,
    "fetch.message.max.bytes": 32 * 1024,
    # where the log ends, the next question would wait for the fetch of the one before
    "fetch.wait.max.ms": 5,
}


class RecordsAt:
    """Every method raises KafkaException where the broker does not answer."""

    def __init__(self, kafka: KafkaAccess, group: str, answer_s: float = _TIMEOUT_S) -> None:
        self._answer_s = answer_s
        self._consumer = reader(kafka, group, _OPTIONS)
        self._known: dict[str, tuple[float, set[int]]] = {}

    def read(self, places: Iterable[Position]) -> dict[Position, Record]:
        """Those that are not found are not there any more."""
        wanted: dict[Partition, set[int]] = defaultdict(set)
        for topic, partition, offset in places:
            wanted[topic, partition].add(offset)
        partitions: dict[str, set[int]] = defaultdict(set)
        for topic, partition in wanted:
            partitions[topic].add(partition)
        known = {topic: self._partitions(topic, its) for topic, its in partitions.items()}
        return {
            record.position: record
            for (topic, partition), its in wanted.items()
            if partition in known[topic]
            for record in self._read((topic, partition), sorted(its))
        }

    def _partitions(self, topic: str, wanted: set[int]) -> set[int]:
        """Asked by the client that reads, which then knows whom to read from; asked anew where one
        is wanted that may have come since."""
        until_s, known = self._known.get(topic, (0.0, set[int]()))
        if time.monotonic() >= until_s or not wanted <= known:
            found = self._consumer.list_topics(topic, self._answer_s).topics[topic]
            if found.error is not None and found.error.code() not in ANOTHER_LOG:
                raise KafkaException(found.error)
            known = {*found.partitions}
            self._known[topic] = time.monotonic() + _KNOWN_FOR_S, known
        return known

    def _read(self, partition: Partition, offsets: list[int]) -> Iterator[Record]:
        nowhere = at = -_READ_ON_MAX - 1
        message: Message | None = None
        for offset in offsets:
            if at < offset:  # else what it came to, where there was none, may be this one
                if offset - at > _READ_ON_MAX:
                    self._consumer.assign([TopicPartition(*partition, offset)])
                message = self._next(offset)
                at = nowhere if message is None else int(message.offset() or 0)
            if message is not None and at == offset:
                yield record_of(message)
        self._consumer.unassign()

    def _next(self, offset: int) -> Message | None:
        """The first record from there on; None where the log has ended before, or begins later."""
        while True:
            message = self._consumer.poll(self._answer_s)
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            error = message.error()
            if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                return None
            if is_end(message):
                return None
            if int(message.offset() or 0) >= offset:
                return message

    def close(self) -> None:
        self._consumer.close()
