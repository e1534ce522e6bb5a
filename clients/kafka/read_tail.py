"""What comes at the ends of logs, read as it comes."""

import time
from collections.abc import Callable, Iterator

from confluent_kafka import KafkaException, Message, TopicPartition

from clients.kafka.connect import reader
from clients.kafka.messages import position_of
from clients.kafka.records import Offsets, by_partition
from shared.kafka_access import KafkaAccess

_AT_ONCE = 2_000
# for others to come, so that few rounds have many
_GATHERS_S = 0.01
_WAITS_S = 0.1
# who cannot keep up had better have a batch, which may be large and have all the cores
_SLOW_S = 0.5
_SLOW_ROUNDS_MAX = 3


class TailReader:
    """Keeps its connections; it reads for one task at a time."""

    def __init__(self, kafka: KafkaAccess, group: str) -> None:
        options = {"enable.partition.eof": False, "queued.max.messages.kbytes": 8 * 1024}
        self._consumer = reader(kafka, group, options)

    def rounds(
        self, begin: Offsets, stays_s: float, while_waiting: Callable[[], None] = lambda: None
    ) -> Iterator[tuple[list[Message], Offsets]]:
        """Each with how far it goes. The next one begins when the caller is done with it."""
        at = {topic: dict(partitions) for topic, partitions in begin.items()}
        starts = [TopicPartition(*place, offset) for place, offset in by_partition(begin).items()]
        self._consumer.assign(starts)
        until_s, slow_rounds = time.monotonic() + stays_s, 0
        try:
            while time.monotonic() < until_s and slow_rounds < _SLOW_ROUNDS_MAX:
                found = self._consume(1, _WAITS_S)
                if not found:
                    while_waiting()
                    continue
                found += self._consume(_AT_ONCE - 1, _GATHERS_S)
                for message in found:
                    topic, partition, offset = position_of(message)
                    at[topic][partition] = offset + 1
                began_s = time.monotonic()
                yield found, at
                is_slow = len(found) == _AT_ONCE or time.monotonic() - began_s > _SLOW_S
                slow_rounds = slow_rounds + 1 if is_slow else 0
        finally:
            self._consumer.unassign()

    def _consume(self, count: int, wait_s: float) -> list[Message]:
        found = []
        for message in self._consumer.consume(count, wait_s):
            error = message.error()
            if error is None:
                found.append(message)
            elif message.topic() is not None or error.fatal():
                raise KafkaException(error)
            # else of the connection: the client goes on trying
        return found
