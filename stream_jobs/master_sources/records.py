"""A record of a topic that somebody else fills -> what it says of a row. Pure."""

from typing import Any, NamedTuple

import orjson

from shared.master_data.rows import kept_key
from shared.master_data.timed_key import timed_key
from shared.model import Fields, Table

# what Debezium writes for a long value that its database did not send along
_NOT_SENT = "__debezium_unavailable_value"


class UnreadableError(Exception):
    """What is wrong with it, and the key of its row, if that can be told."""

    def __init__(self, why: str, key: str | None = None) -> None:
        super().__init__(why)
        self.key = key


class Told(NamedTuple):
    key: str | None  # None: it stands in the fields alone
    fields: Fields | None  # None: the row is gone


def told_by(table: Table, key: bytes | None, value: bytes | None, *, debezium: bool) -> Told | None:
    """None where it tells of no row."""
    own = _key(table, key)
    if value is None:
        return _of_null(table, own, debezium=debezium)
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise UnreadableError(f"not JSON: {error}", own) from None
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        document = document["payload"]
        if document is None:
            return _of_null(table, own, debezium=debezium)
    if not isinstance(document, dict):
        kind = type(document).__name__
        raise UnreadableError(f"a value is a JSON object, not {kind}", own)
    return _of_envelope(table, own, document) if debezium else _of_row(table, own, document)


def _of_null(table: Table, own: str | None, *, debezium: bool) -> Told | None:
    if own is not None and _is_of_one_row(table, own):
        return Told(own, None)
    # of Debezium a deletion was told before, and its key may be another column's
    if debezium:
        return None
    if own is None:
        raise UnreadableError("its key cannot be read, and it has no value")
    raise UnreadableError(
        f"it has no value, and its key no {table.valid_from!r}: which row is gone is not told", own
    )


def _of_row(table: Table, own: str | None, row: Fields) -> Told:
    # as Debezium marks a deletion where its envelope was taken off
    if row.get("__deleted") in (True, "true"):
        return Told(_key_in(table, own, row), None)
    return Told(own, row)


def _of_envelope(table: Table, own: str | None, envelope: Fields) -> Told | None:
    match envelope.get("op"):
        case "c" | "u" | "r":
            after = envelope.get("after")
            if not isinstance(after, dict):
                raise UnreadableError("the envelope has no `after`", own)
            own = own or kept_key(table, after)
            if absent := [name for name, value in after.items() if value == _NOT_SENT]:
                raise UnreadableError(
                    f"{absent[0]}: Debezium did not get the value, which has not changed: give the "
                    "table REPLICA IDENTITY FULL",
                    own,
                )
            return Told(own, after)
        case "d":
            return Told(_key_in(table, own, envelope.get("before")), None)
        case "m":
            return None
        case "t":
            raise UnreadableError("the table was truncated: which rows are gone is not told")
        case other:
            said = repr(other)[:20]
            raise UnreadableError(f"op is {said}: no envelope of Debezium, c, u, r or d", own)


def _key_in(table: Table, own: str | None, row: Any) -> str:
    if own is not None and _is_of_one_row(table, own):
        return own
    key = kept_key(table, row) if isinstance(row, dict) else None
    if key is None:
        names = " and ".join(repr(name) for name in (table.key, table.valid_from) if name)
        raise UnreadableError(
            f"a row is gone, and neither the record's key nor `before` has {names}", own
        )
    return key


def _is_of_one_row(table: Table, key: str) -> bool:
    """Whether a key is of one row: without a time it is of many, in a table whose rows count from a
    time on."""
    return table.valid_from is None or timed_key(key) is not None


def _key(table: Table, raw: bytes | None) -> str | None:
    """A text, a number, or an object that has the field."""
    if not raw:
        return None
    text = raw.decode(errors="replace")
    try:
        key = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return text
    if isinstance(key, dict) and key.keys() == {"schema", "payload"}:
        key = key["payload"]
    if isinstance(key, dict):
        return kept_key(table, key)
    return key if isinstance(key, str) else text
