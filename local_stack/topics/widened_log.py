"""A topic and those who read it, as Kafka knows them, while it is widened."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from clients.kafka import connect
from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Partition
from local_stack.terminal.errors import StackError
from local_stack.topics.widen import RefusedError
from shared.consumer_groups import OPERATOR, of_job
from shared.kafka_access import KafkaAccess

_SEEN_WITHIN_S = 120.0
_UNKNOWN = (
    KafkaError._TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
)
_ANSWER_S = 30.0
_LOOK_S = 0.1


class WidenedLog:
    def __init__(self, kafka: KafkaAccess, topic: str, readers: Sequence[str]) -> None:
        """`readers`: the jobs that read it."""
        self._kafka, self._topic, self._readers = kafka, topic, readers
        self._close = ExitStack()

    def __enter__(self) -> Self:
        self._log = self._close.enter_context(LogOffsets(self._kafka, OPERATOR, [self._topic]))
        self._groups = {
            job: self._close.enter_context(LogOffsets(self._kafka, of_job(job), [self._topic]))
            for job in self._readers
        }
        return self

    def __exit__(self, *_: object) -> None:
        self._close.close()

    def count(self) -> int | None:
        """Its partitions; None: there is no such topic."""
        return self._log.partition_counts([self._topic]).get(self._topic)

    def ends(self) -> dict[Partition, int]:
        return self._log.ends(self._log.partitions([self._topic]))

    def unread(self, ends: Mapping[Partition, int]) -> dict[str, int]:
        """How many records before these ends each job has yet to do."""
        found = {}
        for job, group in self._groups.items():
            done = group.positions(list(ends))
            found[job] = sum(max(0, end - done.get(at, 0)) for at, end in ends.items())
        return found

    def widen(self, to: int) -> None:
        """Returns when the partitions can be written to."""
        admin = connect.admin(self._kafka)
        asked = admin.create_partitions([NewPartitions(self._topic, to)], request_timeout=_ANSWER_S)
        try:
            asked[self._topic].result(_ANSWER_S + 1)
        except KafkaException as error:
            if error.args[0].code() not in _UNKNOWN:
                raise RefusedError(
                    f"Kafka did not give {self._topic} {to} partitions: {error.args[0].str()}; the "
                    "gateways write to those that it has",
                    "do what it says, and call this again",
                ) from error
        except TimeoutError:
            pass  # it may come to it yet
        # whoever went on now might go by another number than the next one
        until_s = time.monotonic() + _SEEN_WITHIN_S
        while not self._has(to):
            if time.monotonic() > until_s:
                raise StackError(
                    f"Kafka has not said for {_SEEN_WITHIN_S:.0f} s whether {self._topic} has {to} "
                    "partitions; the gateways go by what it says to them",
                    "look by ./headrace topics list, and call this again as soon as Kafka answers",
                )
            time.sleep(_LOOK_S)

    def _has(self, to: int) -> bool:
        try:
            partitions = self._log.metadata()[self._topic].partitions.values()
        except KafkaException:
            return False
        return len(partitions) == to and all(one.leader >= 0 for one in partitions)
