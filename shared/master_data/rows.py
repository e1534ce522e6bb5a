"""Whether rows may be in their table, and what a file of them would change there. Pure."""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import orjson
from pydantic import BaseModel

from shared.contract import Breach, contract_of, infinite_place
from shared.formats.text import holds_nul
from shared.ids import TENANT, tenant_of
from shared.master_data.timed_key import TimedKey, timed_key
from shared.model import Fields, Table
from shared.timestamps import is_time_ms

_KEY_CHARS_MAX = 256
_ROW_BYTES_MAX = 1024 * 1024
KEY_RULE = (
    f"a key has 1 to {_KEY_CHARS_MAX} characters that can be printed and begins with no "
    "underscore; it has no slash but for one behind its tenant"
)


class BadRowError(Exception):
    """What is wrong with it, and where."""


class Row(NamedTuple):
    key: str
    fields: Fields


def row_of(table: Table, fields: Any, key: str | None = None, *, are_texts: bool = False) -> Row:
    """As it is stored: its fields keep the table's contract, and hold its key. `are_texts`: what
    comes from CSV stands for the values that the contract asks for."""
    if not isinstance(fields, dict):
        raise BadRowError(f"a row is a JSON object, not {type(fields).__name__}")
    if key is not None:
        fields = {**_said_by(table, key), **fields}
    found = _found(table, fields, are_texts)
    own = found.get(table.key)
    if not isinstance(own, str):
        raise BadRowError(f"it has no text {table.key!r}, which is to hold its key")
    kept = own if table.valid_from is None else _timed(table.valid_from, own, found)
    if key not in (None, own, kept):
        raise BadRowError(f"its {table.key} is {own[:_KEY_CHARS_MAX]!r}, and its key is {key!r}")
    if not is_key(own):
        raise BadRowError(f"{table.key}: {KEY_RULE}")
    _refuse_what_cannot_be_stored(found)
    return Row(kept, found)


def _said_by(table: Table, key: str) -> Fields:
    timed = timed_key(key) if table.valid_from else None
    if timed is None or table.valid_from is None:
        return {table.key: key}
    return {table.key: timed.key, table.valid_from: timed.from_ms}


def _timed(valid_from: str, own: str, fields: Fields) -> str:
    since = fields.get(valid_from)
    if not is_time_ms(since):
        raise BadRowError(
            f"it has no {valid_from!r} in epoch milliseconds, which says from when on it counts"
        )
    return str(TimedKey(own, since))


def kept_key(table: Table, fields: Fields) -> str | None:
    """The key of a row of somebody else's, of which no more may be known than its key."""
    key = _text(fields.get(table.key))
    if key is None or table.valid_from is None:
        return key
    since = fields.get(table.valid_from)
    return str(TimedKey(key, since)) if is_time_ms(since) else None


def row_from_source(table: Table, found: Fields, key: str | None = None) -> Row:
    """A row out of a store that knows nothing of the table's contract: it has no more than its
    fields, its key is text, and a field that may be left out is, where it is null. `key`: as it
    stands beside it."""
    shape = shape_of(table)
    known = {name: found[name] for name in shape.fields or found if name in found}
    if (own := _text(known.get(table.key))) is not None:
        known[table.key] = own
    said = {name: v for name, v in known.items() if v is not None or name in shape.needed}
    return row_of(table, said, key)


def _text(key: Any) -> str | None:
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    return key if isinstance(key, str) and key else None


class Shape(NamedTuple):
    """What fields a table's rows have. Without fields: they may have any."""

    fields: tuple[str, ...] = ()
    needed: frozenset[str] = frozenset()


def shape_of(table: Table) -> Shape:
    return Shape() if table.row is None else _shape(table.row)


@cache
def _shape(contract: Any) -> Shape:
    schema = contract_of(contract).json_schema()
    if "$ref" in schema:
        schema = schema["$defs"][schema["$ref"].rpartition("/")[2]]
    return Shape((*schema.get("properties", ()),), frozenset(schema.get("required", ())))


def is_key(text: str) -> bool:
    _, slash, own = text.rpartition("/")
    if slash and not TENANT.fullmatch(tenant_of(text)):
        return False
    return (
        own.isprintable()
        and 0 < len(own) <= _KEY_CHARS_MAX
        and not text.startswith("_")
        and text.count("/") <= 1
    )


def _found(table: Table, fields: Fields, are_texts: bool) -> Fields:
    if table.row is None:
        return fields
    contract = contract_of(table.row)
    found = contract.of_texts(fields) if are_texts else contract.breach(fields)
    if found is None:
        return fields
    if isinstance(found, Breach):
        raise BadRowError(f"{found.code}: {found.detail}")
    values: Fields = found.model_dump(mode="json") if isinstance(found, BaseModel) else found
    if unknown := fields.keys() - values.keys():
        raise BadRowError(f"field_unknown: {min(unknown)}: the contract has no such field")
    return values


def _refuse_what_cannot_be_stored(fields: Fields) -> None:
    if place := infinite_place(fields):
        raise BadRowError(f"{place}: not a finite number")
    try:
        written = orjson.dumps(fields)
    except TypeError as error:
        raise BadRowError(f"it cannot be written as JSON: {error}") from error
    if len(written) > _ROW_BYTES_MAX:
        raise BadRowError(f"it has {len(written)} bytes, {_ROW_BYTES_MAX} may be")
    if holds_nul(written):
        raise BadRowError(r"\u0000 can be stored nowhere as text")


class Difference(NamedTuple):
    """How rows differ from those that are there."""

    added: dict[str, Fields]
    changed: dict[str, tuple[Fields, Fields]]  # as it is, as it would be
    same: int
    absent: list[str]  # there, and not among the rows

    def counts(self, *, replace: bool) -> dict[str, int]:
        """How many rows an import adds, changes and deletes. `replace`: what is absent is
        deleted."""
        return {
            "added": len(self.added),
            "changed": len(self.changed),
            "same": self.same,
            "deleted" if replace else "kept": len(self.absent),
        }

    def told(self) -> dict[str, Any]:
        """All of it, as a document."""
        changed = {key: {"is": now, "will_be": then} for key, (now, then) in self.changed.items()}
        return {"added": self.added, "changed": changed, "absent": self.absent}

    @property
    def set(self) -> dict[str, Fields]:
        return {**self.added, **{key: after for key, (_, after) in self.changed.items()}}


def difference(there: Mapping[str, Fields], rows: Mapping[str, Fields]) -> Difference:
    added = {key: fields for key, fields in rows.items() if key not in there}
    changed = {
        key: (there[key], fields)
        for key, fields in rows.items()
        if key in there and _written(there[key]) != _written(fields)
    }
    absent = sorted(there.keys() - rows.keys())
    return Difference(added, changed, len(rows) - len(added) - len(changed), absent)


def _written(fields: Fields) -> bytes:
    """For Python, true is 1."""
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
