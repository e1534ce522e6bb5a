"""Changes of a schema that would break those who rely on it.

Readers rely on what is there, and on old records too where they are kept for ever. So a field that
goes, changes its type, is no longer always there, or is always there only from now on breaks them.
Further fields that may be missing break nobody.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

from shared.model import Fields

GONE = "is gone"
RETYPED = "has another type"
NO_LONGER_SURE = "may now be missing"
NOW_REQUIRED = "is now required"
OTHER_KINDS = "may now also be of another kind"
# those who write to a topic are not hurt by anything else
HURTS_WRITERS = (RETYPED, NOW_REQUIRED)

_SAYS_NOTHING_OF_VALUES = ("$schema", "$comment", "$defs", "title", "description")


class Break(NamedTuple):
    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place or 'the value'} {self.what}"


def breaks(old: Fields, new: Fields) -> list[Break]:
    plain_old = _inlined(old, old.get("$defs", {}), ())
    plain_new = _inlined(new, new.get("$defs", {}), ())
    kinds, new_kinds = _kinds(plain_old), _kinds(plain_new)
    if len(kinds) == len(new_kinds):
        return list(_compare(plain_old, plain_new, ""))
    nearest = (min((list(_compare(kind, new, "")) for new in new_kinds), key=len) for kind in kinds)
    more = [Break("", OTHER_KINDS)] if len(new_kinds) > len(kinds) else []
    return [*chain.from_iterable(nearest), *more]


def _kinds(schema: Fields) -> list[Fields]:
    """What it may be, one of several or that alone."""
    return schema.get("oneOf") or schema.get("anyOf") or [schema]


def _inlined(schema: Any, definitions: Fields, within: tuple[str, ...]) -> Any:
    """Without annotations, and with what is referred to in its place."""
    if isinstance(schema, list):
        return [_inlined(item, definitions, within) for item in schema]
    if not isinstance(schema, dict):
        return schema
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if name in definitions and name not in within:
        return _inlined(definitions[name], definitions, (*within, name))
    return {
        key: {field: _inlined(its, definitions, within) for field, its in value.items()}
        if key == "properties"
        else _inlined(value, definitions, within)
        for key, value in schema.items()
        if key not in _SAYS_NOTHING_OF_VALUES
    }


def _compare(old: Any, new: Any, place: str) -> Iterator[Break]:
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for one, other in zip(old, new, strict=True):
            yield from _compare(one, other, place)
    elif isinstance(old, dict) and isinstance(new, dict):
        if _beside_fields(old).keys() != _beside_fields(new).keys():
            yield Break(place, RETYPED)
            return
        yield from _compare_fields(old, new, place)
        for key, value in _beside_fields(old).items():
            yield from _compare(value, new[key], place)
    elif old != new:
        yield Break(place, RETYPED)


def _beside_fields(schema: Fields) -> Fields:
    return {k: v for k, v in schema.items() if k not in ("properties", "required")}


def _compare_fields(old: Fields, new: Fields, place: str) -> Iterator[Break]:
    fields, new_fields = old.get("properties", {}), new.get("properties", {})
    sure, now_sure = set(old.get("required", ())), set(new.get("required", ()))
    for name, schema in fields.items():
        path = f"{place}.{name}".lstrip(".")
        if name not in new_fields:
            yield Break(path, GONE)
            continue
        if name in sure - now_sure:
            yield Break(path, NO_LONGER_SURE)
        yield from _compare(schema, new_fields[name], path)
    for name in sorted(now_sure - sure):
        yield Break(f"{place}.{name}".lstrip("."), NOW_REQUIRED)
