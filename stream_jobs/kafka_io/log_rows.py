"""Records as rows for Spark's own engine, with the time at which Kafka had them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import Message

from stream_jobs.guards.lease import check_lease

_TIME = pa.timestamp("us", tz="UTC")
_OF_EACH = [
    pa.field("appended", _TIME),
    pa.field("is_cut", pa.bool_()),
    pa.field("after", _TIME),  # the cut before, which nothing that is here should be older than
]

_IN_SPARK = {
    pa.binary(): "binary",
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    _TIME: "timestamp",
}


def quoted(name: str) -> str:
    """For Spark, to which a dot in a name is the way into a struct."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class LogRows(ABC):
    """What a worker process needs to know."""

    job: str
    fields: pa.Schema  # of what is in a record

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.fields, *_OF_EACH])

    @property
    def ddl(self) -> str:
        """The same in Spark's words."""
        return ", ".join(f"{quoted(one.name)} {_IN_SPARK[one.type]}" for one in self.schema)

    def __call__(self, read: Iterator[list[Message]]) -> Iterator[pa.RecordBatch]:
        for messages in read:
            check_lease(self.job)
            yield self.rows(messages)

    def rows(self, messages: list[Message]) -> pa.RecordBatch:
        times = [message.timestamp()[1] * 1000 for message in messages]
        columns = [
            *self.columns(messages),
            pa.array(times, _TIME),
            pa.nulls(len(messages), pa.bool_()),
            pa.nulls(len(messages), _TIME),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    @abstractmethod
    def columns(self, messages: list[Message]) -> list[pa.Array]:
        """One of each field."""

    def cut(self, cut_ms: int) -> pa.RecordBatch:
        """It carries the cut's time to Spark, whether or not a record does."""
        row = dict.fromkeys(self.schema.names) | {"appended": cut_ms * 1000, "is_cut": True}
        return pa.RecordBatch.from_pylist([row], self.schema)
