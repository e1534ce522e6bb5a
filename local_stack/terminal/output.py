"""How a verb prints what it has found: a table to read, or one JSON document for a program."""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from local_stack.terminal.printable import as_text, printable
from local_stack.terminal.progress import say


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("-o", "--output", help="How to print.")]


def say_json(document: Any) -> None:
    say("\n".join(json_lines(document)))


def json_lines(document: Any) -> list[str]:
    return json.dumps(document, indent=2, default=str).splitlines()


def say_found(document: Any, text: str, output: Output) -> None:
    """The document for a program, the text to read."""
    if output is Output.JSON:
        say_json(document)
    else:
        say(text)


def say_rows(rows: Sequence[Mapping[str, Any]], output: Output, if_none: str) -> None:
    """Rows with the same names."""
    if output is Output.JSON:
        say_json(rows)
    elif rows:
        say("\n".join(rows_table(rows)))
    else:
        say(if_none)


def record_lines(headers: Sequence[Sequence[Any]], shown: Mapping[str, Any] | None) -> list[str]:
    """Headers, and the bytes as the desk shows them: JSON or text where they are such, else hex."""
    lines = ["", *(f"{printable(name)}: {printable(str(value))}" for name, value in headers)]
    if shown is not None:
        text = shown["json"] or shown["text"]
        lines += ["", *(shown["hex"] if text is None else map(printable, text.splitlines()))]
    return lines


def rows_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return table([*rows[0]], [[*row.values()] for row in rows]) if rows else []


def table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    cells = [
        [printable(name) for name in names],
        *([_cell(value) for value in row] for row in rows),
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict | list):
        return json.dumps(value, default=str, ensure_ascii=False)
    return as_text(value) if isinstance(value, bytes) else printable(str(value))
