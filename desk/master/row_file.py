"""A file of rows: CSV whose first line names the fields, JSON (a list of rows), or a row of JSON in
each line. All of it is good, or the first mistakes are told with their lines. Pure."""

import csv
from collections.abc import Iterable, Iterator
from io import StringIO
from itertools import islice
from typing import Any, NamedTuple

import orjson

from shared.master_data.rows import BadRowError, row_of
from shared.model import Fields, Table

_TOLD_MAX = 10
KINDS = ("csv", "json", "ndjson")


class BadFileError(Exception):
    """The first mistakes, a line each."""


class _Found(NamedTuple):
    where: str
    fields: Any
    mistake: str | None = None  # then there are no fields


def rows_of(table: Table, kind: str, content: bytes, delimiter: str = ",") -> dict[str, Fields]:
    """The rows in a file, by their keys. `kind`: one of KINDS."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadFileError(f"line {line}: not UTF-8") from error
    is_csv = kind == "csv"
    found = _of_csv(text, delimiter) if is_csv else _of_json(text, in_lines=kind == "ndjson")
    rows: dict[str, Fields] = {}
    places: dict[str, str] = {}
    mistakes = _taken(table, found, is_csv, rows, places)
    if told := list(islice(mistakes, _TOLD_MAX)):
        more = sum(1 for _ in mistakes)
        raise BadFileError("\n".join([*told, *([f"and {more} more"] if more else [])]))
    return rows


def _taken(
    table: Table,
    found: Iterable[_Found],
    are_texts: bool,
    rows: dict[str, Fields],
    places: dict[str, str],
) -> Iterator[str]:
    """Takes what is good, and tells what is not."""
    for where, fields, mistake in found:
        if mistake:
            yield f"{where}: {mistake}"
            continue
        try:
            key, good = row_of(table, fields, are_texts=are_texts)
        except BadRowError as error:
            yield f"{where}: {error}"
            continue
        if key in rows:
            yield f"{where}: the key {key!r} is there already, {places[key]}"
        else:
            rows[key], places[key] = good, where


def _of_csv(text: str, delimiter: str) -> Iterator[_Found]:
    """An empty cell is no value."""
    lines = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        names = next(filter(None, lines), [])
        if not names or not all(names) or len(set(names)) < len(names):
            yield _Found("line 1", None, "it must name the fields, each once")
            return
        for cells in filter(None, lines):
            where = f"line {lines.line_num}"
            if len(cells) != len(names):
                yield _Found(where, None, f"{len(cells)} values for {len(names)} fields")
            else:
                pairs = zip(names, cells, strict=True)
                yield _Found(where, {name: cell for name, cell in pairs if cell})
    except csv.Error as error:
        yield _Found(f"line {lines.line_num}", None, f"not CSV: {error}")


def _of_json(text: str, in_lines: bool) -> Iterator[_Found]:
    if in_lines:
        lines = ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
        yield from (_decoded(line, number) for number, line in lines)
        return
    whole = _decoded(text)
    if whole.mistake or not isinstance(whole.fields, list):
        yield whole._replace(mistake=whole.mistake or "it must be a list of rows, [{…}, {…}]")
    else:
        yield from (_Found(f"row {number}", row) for number, row in enumerate(whole.fields, 1))


def _decoded(text: str, first_line: int = 1) -> _Found:
    try:
        return _Found(f"line {first_line}", orjson.loads(text))
    except orjson.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        return _Found(f"line {line}", None, f"not JSON: {error.msg}, column {error.colno}")
