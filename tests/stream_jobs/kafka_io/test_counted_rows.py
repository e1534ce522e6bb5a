from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Message

from stream_jobs.kafka_io.counted_rows import NOTHING_DDL, a_row_for_each_record, real_rows

SCHEMA = pa.schema([("bucket", pa.int32()), ("packed", pa.binary())])


def read(*chunks: int) -> Iterator[list[Message]]:
    return iter([[Message()] * count for count in chunks])


def a_row_for_each_chunk(chunks: Iterator[list[Message]]) -> Iterator[pa.RecordBatch]:
    for chunk in chunks:
        yield pa.RecordBatch.from_arrays([[len(chunk)], [b"all"]], schema=SCHEMA)


def nothing(chunks: Iterator[list[Message]]) -> Iterator[pa.RecordBatch]:
    for _ in chunks:
        pass
    yield from ()


def the_first_chunk(chunks: Iterator[list[Message]]) -> Iterator[pa.RecordBatch]:
    next(chunks)
    yield pa.RecordBatch.from_arrays([[None], [b"told"]], schema=SCHEMA)


@pytest.mark.parametrize(
    ("work", "counted"), [(a_row_for_each_chunk, 12), (nothing, 12), (the_first_chunk, 3)]
)
def test_each_record_that_was_read_is_a_row(work, counted) -> None:  # type: ignore[no-untyped-def]
    batches = list(a_row_for_each_record(work, read(3, 4, 5)))
    assert sum(batch.num_rows for batch in batches) == counted
    assert len({batch.schema for batch in batches}) == 1


def test_what_makes_up_for_them_is_not_real() -> None:
    rows = [
        row
        for batch in a_row_for_each_record(a_row_for_each_chunk, read(3, 4))
        for row in batch.to_pylist()
    ]
    real = [row for row in rows if row["bucket"] is not None]
    assert [row["bucket"] for row in real] == [3, 4]
    assert real_rows("bucket int, packed binary") == "bucket IS NOT NULL"
    assert real_rows(NOTHING_DDL) == "nothing IS NOT NULL"


def test_more_rows_than_records_stay_as_they_are() -> None:
    batches = list(a_row_for_each_record(a_row_for_each_chunk, read(0, 1, 0)))
    assert [batch.num_rows for batch in batches] == [1, 1, 1]


def test_without_records_there_is_no_row() -> None:
    assert not list(a_row_for_each_record(nothing, read()))
