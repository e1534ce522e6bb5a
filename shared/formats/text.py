"""Formats that people can read: JSON, CSV, and the fields of an HTML form."""

import csv
import re
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from typing import Any, ClassVar
from urllib.parse import parse_qsl

import orjson

from shared.formats.format import UndecodableError

_FORM_FIELDS_MAX = 10_000
_LINES_MAX = 100_000
# what JSON allows and PostgreSQL's text does not. An escaped backslash before u0000 is a backslash
# and five characters, and harmless
_ESCAPED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def holds_nul(value: bytes) -> bool:
    return b"\\u0000" in value and _ESCAPED_NUL.search(value) is not None


@dataclass(frozen=True)
class Json:
    """One JSON value. Unless `any_type`, it must be an object."""

    any_type: bool = False
    media_types: tuple[str, ...] = ("application/json",)
    foreign_kinds: ClassVar[frozenset[str]] = frozenset()
    is_text: ClassVar[bool] = False

    def decode(self, value: bytes) -> Any:
        try:
            found = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise UndecodableError("not_json", str(error)) from error
        if not self.any_type and not isinstance(found, dict):
            kind = type(found).__name__
            raise UndecodableError("not_an_object", f"a JSON object is expected, not {kind}")
        if holds_nul(value):
            raise UndecodableError("nul_in_text", r"\u0000 can be stored nowhere as text")
        return found


@dataclass(frozen=True)
class Csv:
    """Lines of comma-separated values (RFC 4180), as a list with a dict of texts for each line.
    Without `columns`, the first line names them."""

    columns: tuple[str, ...] = ()
    delimiter: str = ","
    media_types: tuple[str, ...] = ("text/csv",)
    foreign_kinds: ClassVar[frozenset[str]] = frozenset()
    is_text: ClassVar[bool] = True

    def __post_init__(self) -> None:
        csv.reader((), delimiter=self.delimiter)  # says what is wrong with it
        if isinstance(self.columns, str):
            raise TypeError("columns is no tuple: one alone needs a comma, too, (one,)")

    def decode(self, value: bytes) -> list[dict[str, str]]:
        text = StringIO(_text("not_csv", value), newline="")
        rows = csv.reader(text, delimiter=self.delimiter, strict=True)
        try:
            columns = self.columns or tuple(next(filter(None, rows), ()))
            if not columns:
                raise UndecodableError("not_csv", "there is no line that names columns")
            if len(set(columns)) < len(columns) or not all(columns):
                raise UndecodableError(
                    "not_csv", f"line {rows.line_num}: names of columns are missing or double"
                )
            lines = [_line(columns, row, rows.line_num) for row in islice(rows, _LINES_MAX) if row]
            if next(rows, None) is not None:
                raise UndecodableError("not_csv", f"it has more than {_LINES_MAX} lines")
            return lines
        except csv.Error as error:
            raise UndecodableError("not_csv", f"line {rows.line_num}: {error}") from error


def _line(columns: tuple[str, ...], row: list[str], number: int) -> dict[str, str]:
    if len(row) != len(columns):
        raise UndecodableError(
            "not_csv", f"line {number}: {len(row)} values for {len(columns)} columns"
        )
    return dict(zip(columns, row, strict=True))


@dataclass(frozen=True)
class Form:
    """Fields of an HTML form, as a dict of texts; a field that comes twice is refused."""

    media_types: tuple[str, ...] = ("application/x-www-form-urlencoded",)
    foreign_kinds: ClassVar[frozenset[str]] = frozenset()
    is_text: ClassVar[bool] = True

    def decode(self, value: bytes) -> dict[str, str]:
        text = _text("not_form", value)
        try:
            fields = parse_qsl(
                text,
                keep_blank_values=True,
                strict_parsing=True,
                errors="strict",
                max_num_fields=_FORM_FIELDS_MAX,
            )
        except ValueError as error:  # also of an escaped byte that is not UTF-8
            raise UndecodableError("not_form", str(error)[:200]) from error
        found: dict[str, str] = {}
        for at, (name, text) in enumerate(fields, 1):
            if name in found:
                raise UndecodableError("not_form", f"field {at}: {name[:64]!r} comes twice")
            found[name] = text
        return found


def _text(code: str, value: bytes) -> str:
    try:
        return value.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UndecodableError(code, f"byte {error.start}: not UTF-8") from error
