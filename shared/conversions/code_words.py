"""Codes, and the words that they stand for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shared.model import Rejected

Unknown = Literal["refuse", "pass"]


@dataclass(frozen=True)
class CodeWords:
    """`words`: by their codes, which are texts, as the names of a JSON object are. A number that is
    a code stands for its text: 3 for "3"."""

    words: Mapping[str, str]
    # what becomes of a code that has no word: the payload is parked, or the code's text goes on
    unknown: Unknown = "refuse"

    def word(self, code: Any, name: str = "the code") -> str:
        """`name`: of the field, for who reads why a payload was parked."""
        if isinstance(code, bool) or not isinstance(code, int | str):
            kind = type(code).__name__
            raise Rejected("wrong_type", f"{name}: a code is a whole number or a text, not {kind}")
        text = str(code)
        if text in self.words:
            return self.words[text]
        if self.unknown == "refuse":
            known = ", ".join(sorted(self.words)[:20])
            raise Rejected("unknown_code", f"{name}: {text[:64]!r} is none of {known}")
        return text
