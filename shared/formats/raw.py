"""Bytes that only their own domain understands."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from shared.formats.format import UndecodableError
from shared.user_code import describe_error


@dataclass(frozen=True)
class Raw:
    """`read` makes of the bytes what the enrichment is given. Whatever it raises, the payload
    becomes a dead letter that says so."""

    read: Callable[[bytes], Any] = bytes
    media_types: tuple[str, ...] = ("application/octet-stream",)
    foreign_kinds: ClassVar[frozenset[str]] = frozenset(
        (
            *("bytes", "complex", "dataclass", "date", "datetime", "decimal", "enum"),
            *("frozenset", "set", "time", "timedelta", "tuple", "uuid"),
        )
    )
    is_text: ClassVar[bool] = False

    def decode(self, value: bytes) -> Any:
        try:
            return self.read(value)
        except Exception as error:  # a user's own code may fail in any way
            raise UndecodableError("not_decodable", describe_error(error, self.read)) from error
