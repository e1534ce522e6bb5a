"""`./headrace master`: the rows of the flow's own tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from local_stack.run.options import StateDir
from local_stack.run.server_addresses import database
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, say_found, say_json, say_rows
from local_stack.terminal.printable import printable
from local_stack.terminal.progress import say
from local_stack.terminal.user import user_name

if TYPE_CHECKING:
    from clients.postgres.master_rows import MasterRow
    from desk.master.service import MasterTables
    from shared.master_data.rows import Difference
    from shared.model import Fields

app = typer.Typer(
    no_args_is_help=True,
    help="""Master data of your own tables: list, get, set, delete, import, diff, sources, refused.

    Example: ./headrace master list price --limit 5
    """,
)

RowsFile = Annotated[
    Path, typer.Argument(exists=True, dir_okay=False, help="A .csv, .ndjson or .json file.")
]
Delimiter = Annotated[str, typer.Option(help="Of a CSV file.")]


@app.command("list")
def list_(
    table: Annotated[str | None, typer.Argument(help="Its rows; without it, the tables.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 20,
    after: Annotated[str, typer.Option(help="Go on after this key.")] = "",
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """The tables of the flow, or the rows of one in the order of their keys.

    Example: ./headrace master list price --limit 5
    """
    with _tables(state_dir) as master:
        if table is None:
            say_rows(master.tables(), output, "This flow declares no table of its own.")
            return
        rows, following = master.page(table, limit, after)
    say_rows([_told(row) for row in rows], output, f"{table} has no row.")
    if following and output is Output.TABLE:
        say(f'\nThere are more: --after "{following}"')


@app.command()
def get(
    table: str, key: str, output: OutputOption = Output.TABLE, state_dir: StateDir = None
) -> None:
    """A row, by its key.

    Example: ./headrace master get price a-17
    """
    with _tables(state_dir) as master:
        found = _told(master.get(table, key))
    say_rows([found], output, "")


@app.command("set")
def set_(
    table: str,
    key: str,
    row: Annotated[str, typer.Argument(help="The whole row as JSON; its key may be left out.")],
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Add a row, or put this one in the place of the one that is there.

    Example: ./headrace master set price a-17 '{"cents": 250}'
    """
    import orjson

    try:
        fields = orjson.loads(row)
    except orjson.JSONDecodeError as error:
        raise StackError(f"the row is not JSON: {error}", _NOTHING) from error
    with _tables(state_dir) as master:
        found = _told(master.set(table, key, fields, user_name()))
    say_rows([found], output, "")


@app.command()
def delete(table: str, key: str, state_dir: StateDir = None) -> None:
    """Delete a row. Payloads that need it wait from then on.

    Example: ./headrace master delete price a-17
    """
    with _tables(state_dir) as master:
        master.delete(table, key, user_name())
    say(f"{table} {printable(key)} is deleted")


@app.command("import")
def import_(
    table: str,
    file: RowsFile,
    replace: Annotated[bool, typer.Option(help="Delete what the file does not have.")] = False,
    delimiter: Delimiter = ",",
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Take in all rows of a file, or none if one of them is wrong.

    Example: ./headrace master import price prices.csv --replace
    """
    with _tables(state_dir) as master:
        rows = _rows_of(master, table, file, delimiter)
        found = master.take_in(table, rows, user_name(), replace=replace)
    say_found(found.counts(replace=replace), _summary(found, replace), output)


@app.command()
def diff(
    table: str,
    file: RowsFile,
    limit: Annotated[int, typer.Option(min=1, help="How many rows to show.")] = 50,
    delimiter: Delimiter = ",",
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """What `import` of this file would change.

    Example: ./headrace master diff price prices.csv
    """
    with _tables(state_dir) as master:
        found = master.difference(table, _rows_of(master, table, file, delimiter))
    if output is Output.JSON:
        say_json(found.told())
        return
    lines = _lines(found)
    if len(lines) > limit:
        lines[limit:] = [f"… and {len(lines) - limit} more: --limit"]
    say("\n".join([*map(printable, lines), _summary(found, replace=False)]))


@app.command()
def sources(output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """Tables whose rows are read from a store of yours, and as of when they are known.

    Example: ./headrace master sources
    """
    with _tables(state_dir) as master:
        say_rows(master.sources(), output, "No table of this flow has a source.")


@app.command()
def refused(
    table: str,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Rows that a source has and that break the table's contract. What they were before stays.

    Example: ./headrace master refused price
    """
    with _tables(state_dir) as master:
        rows = [one._asdict() for one in master.refusals(table, limit)]
    say_rows(rows, output, f"No row of {table} is refused.")


_NOTHING = "nothing was changed"


@contextmanager
def _tables(state_dir: Path | None) -> Iterator["MasterTables"]:
    from clients.postgres.grants import DESK
    from desk.letters.store import LetterBook
    from desk.master.service import MasterTables, NoRowError, NoTableError, ReadOnlyTableError
    from local_stack.machine.settings_check import chosen_flow
    from shared.errors import RowRefusedError
    from shared.master_data.rows import BadRowError

    flow = chosen_flow()
    try:
        with database(state_dir, "master", DESK) as connection:
            yield MasterTables(LetterBook(connection), flow)
    except NoTableError as error:
        raise StackError(str(error), "HEADRACE_FLOW names the flow: ./headrace flow") from error
    except ReadOnlyTableError as error:
        raise StackError(str(error), _NOTHING) from error
    except NoRowError as error:
        raise StackError(str(error), "see: ./headrace master list") from error
    except (BadRowError, RowRefusedError) as error:
        raise StackError(f"the row is wrong: {error}", _NOTHING) from error


def _rows_of(master: "MasterTables", table: str, file: Path, delimiter: str) -> dict[str, "Fields"]:
    from desk.master.row_file import KINDS, BadFileError, rows_of

    kind = file.suffix.removeprefix(".").lower()
    if kind not in KINDS:
        raise StackError(
            f"{file.name} is of no kind that can be read", f"name it .{', .'.join(KINDS)}"
        )
    if len(delimiter) != 1:
        raise StackError("a delimiter is one character", "write --delimiter ';'")
    try:
        return rows_of(master.table(table), kind, file.read_bytes(), delimiter)
    except BadFileError as error:
        raise StackError(f"{file.name} cannot be taken in:\n{error}", _NOTHING) from error


def _told(row: "MasterRow") -> dict[str, Any]:
    return {
        "key": row.key,
        "row": row.fields,
        "revision": row.revision,
        "updated_at": f"{row.updated_at:%Y-%m-%dT%H:%M:%SZ}",
    }


def _summary(found: "Difference", replace: bool) -> str:
    counts = found.counts(replace=replace)
    kept = counts.pop("kept", 0)
    said = ", ".join(f"{count} {what}" for what, count in counts.items())
    return f"{said}; {kept} more are there, which --replace deletes" if kept else said


def _lines(found: "Difference") -> list[str]:
    added = [f"+ {key}  {_json(fields)}" for key, fields in found.added.items()]
    changed = [
        f"~ {key}  " + ", ".join(_changes(now, then)) for key, (now, then) in found.changed.items()
    ]
    return [*added, *changed, *(f"- {key}  (with --replace)" for key in found.absent)]


def _changes(now: "Fields", then: "Fields") -> Iterator[str]:
    for name in {**now, **then}:
        before, after = (_json(fields[name]) if name in fields else "–" for fields in (now, then))
        if before != after:
            yield f"{name}: {before} → {after}"


def _json(value: Any) -> str:
    import orjson

    return orjson.dumps(value).decode()
