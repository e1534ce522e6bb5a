"""What every format is."""

from typing import Any, Protocol


class UndecodableError(Exception):
    """These bytes are not what they should be. The code becomes the dead letter's reason, the
    detail says where in the bytes."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class Format(Protocol):
    @property
    def media_types(self) -> tuple[str, ...]:
        """Content types that choose it where an endpoint takes several formats."""

    @property
    def foreign_kinds(self) -> frozenset[str]:
        """Which values that JSON does not have it may give: pydantic's names of them."""

    @property
    def is_text(self) -> bool:
        """Whether all its values are texts. Then a contract that asks for a number takes "7"."""

    def decode(self, value: bytes) -> Any:
        """Or UndecodableError. The value is not empty."""
