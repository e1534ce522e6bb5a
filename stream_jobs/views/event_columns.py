"""Events as JSON -> the columns that a view's SQL reads.

Arrow's own reader of JSON takes a block of events at once, for a quarter of what Spark's
`from_json` costs. Where a block has one that it may read in another way than all else here does (a
number as text, a field twice, what is no JSON), its events are read one by one. So what an event
says does not depend on what came beside it.
"""

import math
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from shared.model import EventType, Fields
from shared.tables.columns import FITS, Column, columns_of, sql_type

_ENVELOPE = {
    "id": "string",
    "type": "string",
    "entity_id": "string",
    "time_ms": "bigint",
    "arrived_ms": "bigint",
    "revision": "bigint",
    "shape": "bigint",
}
_KINDS = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}
_NO_EVENT = b"{}"
# a block costs 200 us, however small it is
_SOME = 40
# Arrow takes them, and they are no JSON
_NO_NUMBERS = b"NaN", b"Inf"
# what is nested deeper is refused one by one, and takes at least so many bytes
_DEPTH_MAX = 1024
_DEEP_BYTES = 2 * _DEPTH_MAX


class EventColumns:
    """Null is what an event does not have, or what is of another type than its column."""

    def __init__(self, event_type: EventType) -> None:
        self._columns = columns_of((event_type,))
        kinds = [_KINDS[sql_type(column.kind)] for column in self._columns]
        envelope = [(name, _KINDS[kind]) for name, kind in _ENVELOPE.items()]
        data = [(f"data_{one.name}", kind) for one, kind in zip(self._columns, kinds, strict=True)]
        self.fields = pa.schema([*envelope, ("has_data", pa.bool_()), *data])
        # of what is nested, the text is the column: Arrow would read what is in it
        fit = all(column.kind in FITS for column in self._columns)
        in_data = [(one.field, kind) for one, kind in zip(self._columns, kinds, strict=True)]
        its = pa.schema([*envelope, ("data", pa.struct(in_data))])
        self._parse = json.ParseOptions(its, unexpected_field_behavior="ignore") if fit else None

    def of(self, values: Sequence[bytes | None]) -> list[pa.Array]:
        texts = [value or _NO_EVENT for value in values]
        return self._of_block(texts) or self._one_by_one(texts)

    def _of_block(self, texts: list[bytes]) -> list[pa.Array] | None:
        """None where it is not sure that each is what it would be alone."""
        if self._parse is None or len(texts) < _SOME or not all(map(_is_plain, texts)):
            return None
        # a first row that is null would end the process
        block = b"\n".join((_NO_EVENT, *texts))
        if any(one in block for one in _NO_NUMBERS):
            return None
        read = json.ReadOptions(use_threads=False, block_size=len(block) + 1)
        try:
            block.decode()  # Arrow does not look
            table = json.read_json(pa.BufferReader(block), read, self._parse)
        except (UnicodeDecodeError, pa.ArrowInvalid):
            return None
        if table.num_rows != len(texts) + 1:  # one had several
            return None
        *envelope, data = (column.combine_chunks() for column in table.slice(1).columns)
        columns = [*envelope, data.is_valid(), *data.flatten()]
        return None if any(map(_has_minus_zero, columns)) else columns

    def _one_by_one(self, texts: list[bytes]) -> list[pa.Array]:
        rows = zip(*map(self._row, texts), strict=True)
        return [
            pa.array(column, field.type) for column, field in zip(rows, self.fields, strict=True)
        ]

    def _row(self, text: bytes) -> list[Any]:
        event = _object(text)
        data = event.get("data")
        envelope = [
            its if FITS[kind](its := event.get(name)) else None for name, kind in _ENVELOPE.items()
        ]
        is_one = isinstance(data, dict)
        values = data or {} if is_one else {}
        return [*envelope, is_one, *(_value(one, values.get(one.field)) for one in self._columns)]


def _is_plain(text: bytes) -> bool:
    is_deep = len(text) > _DEEP_BYTES and text.count(b"[") + text.count(b"{") > _DEPTH_MAX
    return text.startswith(b"{") and not is_deep


def _has_minus_zero(column: pa.Array) -> bool:
    """Of a -0 that is written as a whole number Arrow keeps the sign."""
    if not pa.types.is_floating(column.type):
        return False
    return pc.any(pc.equal(pc.divide(1.0, column), -math.inf)).as_py() is True


def _value(column: Column, value: Any) -> Any:
    if value is None:
        return None
    if column.kind == "double":
        return float(value) if type(value) in (int, float) else None
    if column.kind in FITS:
        return value if FITS[column.kind](value) else None
    return value if type(value) is str else orjson.dumps(value).decode()


def _object(text: bytes) -> Fields:
    try:
        event = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return event if isinstance(event, dict) else {}
