"""Records as rows for Spark's own engine, which reads what is in them."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import Message

from stream_jobs.guards.lease import check_lease

ROWS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("appended", pa.timestamp("us", tz="UTC")),
        ("is_cut", pa.bool_()),
    ]
)
ROWS_DDL = "key binary, value binary, appended timestamp, is_cut boolean"


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
            pa.array(times, ROWS.field("appended").type),
            pa.nulls(len(messages), pa.bool_()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=ROWS)

    def values(self, messages: list[Message]) -> list[bytes | None]:
        return [message.value() for message in messages]
