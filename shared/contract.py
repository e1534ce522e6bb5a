"""Contracts: the shape that a payload, an event's data or a state has, checked and published."""

from functools import cache
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from shared.model import Fields

_CODE_BY_KIND = {
    "missing": "field_missing",
    "union_tag_not_found": "field_missing",
    "extra_forbidden": "field_unknown",
}


class Breach(NamedTuple):
    code: str
    detail: str


class Contract:
    """Of a TypedDict, a dataclass or a pydantic model with JSON's own types. A number in quotes is
    no number: nothing is converted."""

    def __init__(self, shape: Any) -> None:
        self._adapter = TypeAdapter(shape)

    def breach(self, fields: Fields) -> Breach | None:
        """What is wrong first; None where the contract is kept."""
        try:
            self._adapter.validate_python(fields, strict=True)
        except ValidationError as error:
            # never the value itself: it may be a secret, and it may be long
            wrong = error.errors(include_url=False, include_input=False)
            more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
            code, detail = _breach(wrong[0])
            return Breach(code, detail + more)
        return None

    def json_schema(self, definitions_at: str = "#/$defs/") -> Fields:
        return self._adapter.json_schema(ref_template=definitions_at + "{model}")


def _breach(wrong: ErrorDetails) -> Breach:
    place, said = ".".join(map(str, wrong["loc"])), wrong["msg"]
    if wrong["type"].startswith("union_tag_"):
        # none of several shapes was chosen; pydantic's words quote the value, and no place
        tag, tags = wrong["ctx"]["discriminator"].strip("'"), wrong["ctx"].get("expected_tags")
        place = f"{place}.{tag}" if place else tag
        said = f"Input should be one of {tags}" if tags else "Field required"
    return Breach(_code(wrong["type"]), f"{place}: {said}")


def _code(kind: str) -> str:
    if kind.endswith("_type"):
        return "wrong_type"
    return _CODE_BY_KIND.get(kind, "bad_value")


@cache
def contract_of(shape: Any) -> Contract:
    return Contract(shape)
