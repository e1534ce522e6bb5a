"""Contracts: the shape that a payload, an event's data or a state has, checked and published."""

from functools import cache
from math import isfinite
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from shared.formats import Versions
from shared.mistakes import words_of
from shared.model import Endpoint, Fields

_CODE_BY_KIND = {
    "missing": "field_missing",
    "union_tag_not_found": "field_missing",
    "extra_forbidden": "field_unknown",
}
_NEVER_IN_JSON = {
    *("bytes", "complex", "dataclass", "date", "datetime", "decimal", "enum", "frozenset"),
    *("set", "time", "timedelta", "tuple", "uuid"),
}
_TOLD_ONE_BY_ONE_MAX = 100
_NAME_CHARS_MAX = 64


class Breach(NamedTuple):
    code: str
    detail: str
    place: str = ""  # fields with dots between; empty: the whole


class Contract:
    """The contract of a TypedDict or a pydantic model with JSON's own types, and those that the
    format of a payload has beside them. A number in quotes is no number: nothing is converted."""

    def __init__(self, shape: Any, foreign_kinds: frozenset[str] = frozenset()) -> None:
        self._adapter = TypeAdapter(shape)
        foreign = _kinds(self._adapter.core_schema) & _NEVER_IN_JSON - foreign_kinds
        if foreign:
            # it would refuse every value: nothing is converted here, and JSON has no such type
            raise TypeError(f"JSON has no {sorted(foreign)[0]}; use str, int, float, list or dict")

    def breach(self, fields: Any) -> Breach | None:
        """What is wrong first; None where the contract is kept."""
        try:
            self._adapter.validate_python(fields, strict=True)
        except ValidationError as error:
            return _first_breach(error)
        return None

    def of_texts(self, texts: Any) -> Any:
        """The values that texts stand for, in a format that has nothing but texts, or a Breach."""
        try:
            values = self._adapter.validate_python(texts)
        except ValidationError as error:
            return _first_breach(error)
        place = infinite_place(values)
        said = f"{place}: not a finite number"
        return Breach("bad_value", said, place) if place else values

    def json_schema(self, definitions_at: str = "#/$defs/") -> Fields:
        return self._adapter.json_schema(ref_template=definitions_at + "{model}")


def infinite_place(values: Any, place: str = "") -> str:
    """Where a text was "nan" or "inf", which JSON cannot say."""
    if isinstance(values, float):
        return "" if isfinite(values) else place or "the whole"
    if isinstance(values, list):
        values = dict(enumerate(values))
    pairs = values.items() if isinstance(values, dict) else ()
    found = (infinite_place(value, f"{place}.{key}".lstrip(".")) for key, value in pairs)
    return next(filter(None, found), "")


def _first_breach(error: ValidationError) -> Breach:
    count = error.error_count()
    if count > _TOLD_ONE_BY_ONE_MAX:  # a list of a million errors is as many objects
        return Breach("bad_value", f"{count} values in it break the contract")
    # never the value itself: it may be a secret, and it may be long
    wrong = error.errors(include_url=False, include_input=False)
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    breach = _breach(wrong[0])
    return breach._replace(detail=breach.detail + more)


def _breach(wrong: ErrorDetails) -> Breach:
    # names of fields are the sender's text, too
    place = ".".join(str(part)[:_NAME_CHARS_MAX] for part in wrong["loc"])
    said = words_of(wrong)
    if wrong["type"].startswith("union_tag_"):
        # none of several shapes was chosen; pydantic's words quote the value, and no place
        tag, tags = wrong["ctx"]["discriminator"].strip("'"), wrong["ctx"].get("expected_tags")
        place = f"{place}.{tag}" if place else tag
        said = f"Input should be one of {tags}" if tags else "Field required"
    return Breach(_code(wrong["type"]), f"{place or 'the whole'}: {said}", place)


def _kinds(schema: Any) -> set[str]:
    if isinstance(schema, dict):
        kind = schema.get("type")
        return set().union([kind] if isinstance(kind, str) else [], *map(_kinds, schema.values()))
    return set().union(*map(_kinds, schema)) if isinstance(schema, list) else set()


def _code(kind: str) -> str:
    if kind.endswith("_type"):
        return "wrong_type"
    return _CODE_BY_KIND.get(kind, "bad_value")


@cache
def contract_of(shape: Any, foreign_kinds: frozenset[str] = frozenset()) -> Contract:
    return Contract(shape, foreign_kinds)


def versions_of(endpoint: Endpoint) -> Versions | None:
    return endpoint.payload if isinstance(endpoint.payload, Versions) else None


def payload_contract(endpoint: Endpoint, version: str | None = None) -> Contract | None:
    """The contract of a payload: the newest one, where payloads have versions and none is named."""
    shape, versions = endpoint.payload, versions_of(endpoint)
    if versions:
        shape = versions.shapes[version or versions.newest]
    return contract_of(shape, endpoint.foreign_kinds) if shape else None
