"""What a handler of state makes for topics is written where it is made."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from clients.kafka.records import Outgoing
from shared.events.envelope import Header, Position, failure_headers
from shared.events.oversize_stub import fitted
from shared.topic_names import dead_letter_topic
from stream_jobs.kafka_io.topic_writer import TopicWriter, WriterOf
from stream_jobs.state.bulk_map_state import States


def dead_letter(
    stage: str,
    place: Position,
    key: bytes | None,
    value: bytes | None,
    reason: str,
    detail: str,
    headers: Sequence[Header] = (),
) -> Outgoing:
    why = failure_headers(headers, stage, place, reason, detail)
    return Outgoing(dead_letter_topic(stage), *fitted(place, key, value, why))


class Handler(ABC):
    """The methods of a processor of Spark's, under its names; what it yields is for a topic, or a
    row for Spark."""

    @abstractmethod
    def init(self, states: States) -> None: ...

    @abstractmethod
    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[Any], times: Any
    ) -> Iterator[Outgoing | Row]: ...

    def handleInitialState(self, key: Any, row: Any, times: Any) -> None:  # noqa: ARG002, N802
        raise TypeError(f"{type(self).__name__} begins with nothing")


class WritingProcessor(StatefulProcessor):
    """All is written before Spark commits the state, and all that the state was asked is answered
    where a method returns."""

    def __init__(self, handler: Handler, writer: WriterOf) -> None:
        self._handler = handler
        self._writer_of = writer
        self._writer: TopicWriter | None = None
        self._states: States

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._states = States(handle)
        self._handler.init(self._states)

    def handleInitialState(self, key: Any, row: Any, times: Any) -> None:  # noqa: N802
        self._handler.handleInitialState(key, row, times)
        self._states.settle()

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[Any], times: Any
    ) -> Iterator[Row]:
        if self._writer is None:
            self._writer = self._writer_of()
        with self._writer.or_nothing():
            for made in self._handler.handleInputRows(key, rows, times):
                if isinstance(made, Outgoing):
                    self._writer.send(made)
                else:
                    yield made
            self._states.settle()

    def close(self) -> None:
        if self._writer is not None:
            with self._writer.or_nothing():
                self._writer.flush()
