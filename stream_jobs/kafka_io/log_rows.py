"""Records as rows for Spark's own engine, which reads what is in them."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import Message

from stream_jobs.guards.lease import check_lease

_TIME = pa.timestamp("us", tz="UTC")
ROWS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("appended", _TIME),
        ("is_cut", pa.bool_()),
        ("after", _TIME),  # the cut before, which nothing that is here should be older than
    ]
)
ROWS_DDL = "key binary, value binary, appended timestamp, is_cut boolean, after timestamp"


@dataclass(frozen=True)
class LogRows:
    """What a worker process needs to know."""

    job: str

    def __call__(self, read: Iterator[list[Message]]) -> Iterator[pa.RecordBatch]:
        for messages in read:
            check_lease(self.job)
            yield self.rows(messages)

    def rows(self, messages: list[Message]) -> pa.RecordBatch:
        times = [message.timestamp()[1] * 1000 for message in messages]
        columns = [
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array(self.values(messages), pa.binary()),
            pa.array(times, _TIME),
            pa.nulls(len(messages), pa.bool_()),
            pa.nulls(len(messages), _TIME),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=ROWS)

    def values(self, messages: list[Message]) -> list[bytes | None]:
        return [message.value() for message in messages]
