"""Avro, whose bytes mean nothing without the schema that they were written with."""

from dataclasses import dataclass
from functools import cache, cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import orjson

from shared.formats.format import UndecodableError

_DECIMAL_BYTES_MAX = 64


@dataclass(frozen=True)
class Avro:
    """One datum in Avro's binary encoding, without a container around it. `schema` is an .avsc
    file, or what stands in one."""

    schema: Path | str
    media_types: tuple[str, ...] = ("application/avro", "avro/binary")
    foreign_kinds: ClassVar[frozenset[str]] = frozenset(
        ("bytes", "date", "datetime", "decimal", "time", "uuid")
    )
    is_text: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _ = self.parsed  # says now what is wrong with it

    @cached_property
    def parsed(self) -> Any:
        text = self.schema.read_text() if isinstance(self.schema, Path) else self.schema
        return parsed_schema(text)

    def decode(self, value: bytes) -> Any:
        return datum_of(value, self.parsed)


def parsed_schema(text: str) -> Any:
    """With the full name of each type, wherever it stands. ValueError where it is unsafe."""
    import fastavro

    _bound_decimals()
    parsed = fastavro.parse_schema(orjson.loads(text))
    _least_bytes(parsed, (), {})
    return parsed


def datum_of(value: bytes, schema: Any, reader: Any = None, begins_at: int = 0) -> Any:
    """Which must end where the bytes do."""
    import fastavro

    stream = BytesIO(value)
    stream.seek(begins_at)
    try:
        found = fastavro.schemaless_reader(stream, schema, reader)
    except Exception as error:  # the library has no error of its own for it
        why = str(error) or "the bytes end here, and the schema asks for more"
        raise UndecodableError("not_avro", f"byte {stream.tell()}: {why}") from error
    if stream.tell() < len(value):
        rest = len(value) - stream.tell()
        raise UndecodableError(
            "not_avro", f"byte {stream.tell()}: the datum ends here, {rest} bytes follow"
        )
    return found


def _least_bytes(schema: Any, inside: tuple[str, ...], named: dict[str, int]) -> int:
    """The least bytes that a datum takes. ValueError for a schema by which a few bytes become any
    number of values: one that holds itself would overflow the decoder's stack, and items of no
    bytes its memory."""
    if isinstance(schema, list):
        return 1 + min((_least_bytes(branch, inside, named) for branch in schema), default=0)
    if isinstance(schema, str):
        if schema in inside:
            raise ValueError(f"the Avro schema's {schema!r} holds itself: that has no end")
        return 0 if schema == "null" else named.get(schema, 1)
    kind = schema["type"]
    if kind == "array" and not _least_bytes(schema["items"], inside, named):
        raise ValueError("the Avro schema has an array whose items have no bytes: no end")
    if kind == "map":
        _least_bytes(schema["values"], inside, named)
    if kind in ("array", "map"):
        return 1
    if kind == "record":
        inside = (*inside, schema["name"])
        least = sum(_least_bytes(field["type"], inside, named) for field in schema["fields"])
    else:
        least = schema["size"] if kind == "fixed" else _least_bytes(kind, inside, named)
    if "name" in schema:
        named[schema["name"]] = least
    return int(least)


@cache
def _bound_decimals() -> None:
    """Bytes may hold a number of a million digits, whatever the schema's precision; to make a
    decimal of it takes minutes."""
    from fastavro.read import LOGICAL_READERS

    read = LOGICAL_READERS["bytes-decimal"]

    def read_bounded(data: bytes, schema: Any = None, reader_schema: Any = None) -> Any:
        if len(data) > _DECIMAL_BYTES_MAX:
            raise ValueError(f"a decimal of {len(data)} bytes, {_DECIMAL_BYTES_MAX} may be")
        return read(data, schema, reader_schema)

    LOGICAL_READERS["bytes-decimal"] = read_bounded
