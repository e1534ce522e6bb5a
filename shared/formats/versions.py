"""Several versions of a payload side by side: devices in the field send what their firmware knows.

    Endpoint(…, payload=Versions(ByField("v"), {"1": Old, "2": New}, upcasters=(old_to_new,)))

Each payload is held to the contract of its version, and lifted to the newest shape: an enrichment
knows no other.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_NAME = re.compile("[A-Za-z0-9._-]{1,40}")
_TOLD_CHARS_MAX = 100


class UnknownVersionError(Exception):
    """Which one the payload says, and which there are."""


@dataclass(frozen=True)
class ByField:
    """A field of the payload, a text or a whole number."""

    name: str

    @property
    def told(self) -> str:
        return f"field {self.name}"

    def of(self, fields: Any, _media_type: str) -> str | None:
        said = fields.get(self.name) if isinstance(fields, dict) else None
        return None if said is None else str(said)


@dataclass(frozen=True)
class ByMediaType:
    """A parameter of the content type: application/json; version=2."""

    parameter: str = "version"

    @property
    def told(self) -> str:
        return f"parameter {self.parameter} of its content type"

    def of(self, _fields: Any, media_type: str) -> str | None:
        for parameter in media_type.split(";")[1:]:
            name, _, said = parameter.partition("=")
            if name.strip().lower() == self.parameter.lower():
                return said.strip().strip('"')
        return None


@dataclass(frozen=True)
class Versions:
    by: ByField | ByMediaType
    shapes: Mapping[str, Any]  # by their names, the oldest first; the last one is today's
    # one for each but the last shape, in their order, that makes the next one of it
    upcasters: tuple[Callable[[Any], Any], ...] = ()
    unnamed: str | None = None  # the version of payloads that name none; None: such are refused

    @property
    def newest(self) -> str:
        return [*self.shapes][-1]

    def of(self, fields: Any, media_type: bytes | None) -> str:
        said = self.by.of(fields, (media_type or b"").decode(errors="backslashreplace"))
        version = self.unnamed if said is None else said
        if version in self.shapes:
            return str(version)
        what = "names none" if said is None else f"says {said[:_TOLD_CHARS_MAX]!r}"
        known = ", ".join(self.shapes)
        raise UnknownVersionError(f"its {self.by.told} {what}; there are {known}")

    def upcasters_from(self, version: str) -> tuple[Callable[[Any], Any], ...]:
        return self.upcasters[[*self.shapes].index(version) :]

    def why_not(self) -> str | None:
        """Why these cannot be."""
        if not isinstance(self.by, ByField | ByMediaType):
            return "by is a ByField or a ByMediaType"
        if len(self.shapes) < 2 or not all(map(_is_name, self.shapes)):
            return 'give at least two shapes, by names such as "1" and "2"'
        if len(self.upcasters) != len(self.shapes) - 1:
            return f"{len(self.shapes)} shapes need {len(self.shapes) - 1} upcasters"
        if self.unnamed is not None and self.unnamed not in self.shapes:
            return f"unnamed is {self.unnamed!r}, which is none of them"
        return None


def _is_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None
