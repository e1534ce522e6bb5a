"""Makes Spark count every record that a job reads.

Spark counts rows of the scan, and our workers use records up before they yield any. So that its
progress, its listeners and its page are true, rows of nothing but nulls stand for those records. A
filter on the first column, which real rows have, takes them away before the next step.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from confluent_kafka import Message

if TYPE_CHECKING:
    import pyarrow as pa

Work = Callable[[Iterator[list[Message]]], "Iterator[pa.RecordBatch]"]


def a_row_for_each_record(work: Work, read: Iterator[list[Message]]) -> "Iterator[pa.RecordBatch]":
    records = rows = 0

    def counted() -> Iterator[list[Message]]:
        nonlocal records
        for chunk in read:
            records += len(chunk)
            yield chunk

    schema = None
    for batch in work(counted()):
        rows, schema = rows + batch.num_rows, batch.schema
        yield batch
    if records > rows:
        yield _of_nulls(records - rows, schema)


def _of_nulls(rows: int, schema: "pa.Schema | None") -> "pa.RecordBatch":
    import pyarrow as pa

    schema = schema or pa.schema([(NOTHING, pa.int32())])
    return pa.RecordBatch.from_arrays([pa.nulls(rows, its.type) for its in schema], schema=schema)


NOTHING = "nothing"
NOTHING_DDL = f"{NOTHING} int"


def real_rows(ddl: str) -> str:
    """The condition by which what comes after the scan has them alone."""
    return f"{ddl.split()[0]} IS NOT NULL"
