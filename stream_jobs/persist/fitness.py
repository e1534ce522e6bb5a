"""What of a record no row can take, and why. Pure."""

import orjson

from clients.kafka.records import Record
from shared.formats.text import holds_nul
from shared.model import Fields

_INDEXED_BYTES_MAX = 2_000  # PostgreSQL takes a few hundred more


class UnfitError(Exception):
    """args: reason, detail."""


def text_key(record: Record, unfit: str) -> str:
    if record.key is None:
        raise UnfitError("no_key", "the key says whose record it is, and this one has none")
    try:
        key = record.key.decode()
    except UnicodeDecodeError as error:
        raise UnfitError(unfit, str(error)) from error
    if "\0" in key:
        raise UnfitError("nul_in_text", "the key holds a NUL character")
    refuse_too_long(key, "the key")
    return key


def json_value(record: Record) -> bytes:
    if record.value is None:
        raise UnfitError("no_value", "the value is null")
    try:
        orjson.loads(record.value)
    except ValueError as error:
        raise UnfitError("no_json", str(error)) from error
    if holds_nul(record.value):
        raise UnfitError("nul_in_text", r"the value holds \u0000, which no row can")
    return record.value


def data_text(data: Fields) -> str:
    """An upcaster may have put into it what the record did not hold."""
    try:
        text = orjson.dumps(data)
    except (TypeError, ValueError) as error:
        raise UnfitError("not_writable", f"the data cannot be written as JSON: {error}") from error
    if holds_nul(text):
        raise UnfitError("nul_in_text", r"the data holds \u0000, which no row can")
    return text.decode()


def can_be_indexed(text: str) -> bool:
    return "\0" not in text and len(text.encode()) <= _INDEXED_BYTES_MAX


def refuse_too_long(text: str, what: str) -> None:
    if (size := len(text.encode())) > _INDEXED_BYTES_MAX:
        raise UnfitError(
            "id_too_long", f"{what} has {size} bytes, an index takes {_INDEXED_BYTES_MAX}"
        )
