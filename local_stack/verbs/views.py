"""`./headrace views`: the flow's views, their rows, and whether their SQL is one for a view."""

import os
import subprocess
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from local_stack.run.health import ask
from local_stack.run.operator_token import operator_token
from local_stack.run.options import StateDir, folder_of
from local_stack.run.server_addresses import running_stack
from local_stack.terminal.errors import LOOK, StackError
from local_stack.terminal.output import Output, OutputOption, say_found, say_rows
from local_stack.terminal.progress import say

app = typer.Typer(
    no_args_is_help=True,
    help="""Views in SQL: list, show, check.

    Example: ./headrace views show by_area --where area=north
    """,
)

_SHOWN = "name", "of", "key", "results", "watermark", "late", "pipeline_lag_s", "stale"


@app.command("list")
def list_(output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """The views that there are, how far they are behind, and what they left out.

    Example: ./headrace views list
    """
    found = _asked("/views", state_dir)["views"]
    rows = found if output is Output.JSON else [{k: row[k] for k in _SHOWN} for row in found]
    say_rows(rows, output, "There is no view.")


@app.command()
def show(
    name: str,
    where: Annotated[
        list[str] | None, typer.Option(help="COLUMN=VALUE of the key, from=…, until=…, closed=true")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 100,
    sort: Annotated[
        str, typer.Option(help="A column, or - and a column for the highest first.")
    ] = "",
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """A view's rows, in the order of their keys or as --sort says.

    Example: ./headrace views show by_area --where area=north --sort -highest --limit 10
    """
    wanted = dict(_pair(one) for one in where or ()) | ({"sort": sort} if sort else {})
    found = _asked(f"/views/{name}?{urlencode({**wanted, 'limit': limit})}", state_dir)
    if output is Output.JSON:
        say_found(found, "", output)
        return
    rows = [{k: its for k, its in row.items() if k != "_meta"} for row in found["rows"]]
    say_rows(rows, output, "No row is like that.")
    if found["next"]:
        say(f"\nThere are more: --where next={found['next']}")
    if found["stale"]:
        say(f"\nThe view is behind: {found['stale_because']}")


@app.command()
def check() -> None:
    """Whether the views' SQL can be kept up to date, before any job starts: their columns, or what
    to write instead.

    Example: ./headrace views check
    """
    from local_stack.machine.job_environment import job_environment
    from local_stack.machine.processes import python
    from local_stack.machine.settings_check import chosen_flow

    if not chosen_flow().views:
        say("The flow has no views.")
        return
    command = python("-m", "stream_jobs.views.check")
    done = subprocess.run(
        command,
        env={**os.environ, **job_environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout:
        raise StackError("Spark could not check the views", done.stderr.rstrip()[-500:])
    say(done.stdout.rstrip())
    raise typer.Exit(done.returncode)


def _pair(told: str) -> tuple[str, str]:
    name, is_there, value = told.partition("=")
    if not is_there:
        raise StackError(f"--where {told} has no =", "write it as --where COLUMN=VALUE")
    return name, value


def _asked(path: str, state_dir: StateDir) -> Any:
    folder = folder_of(state_dir)
    url = running_stack(folder)["gateway_url"]
    status, answer = ask(f"{url}{path}", operator_token(folder))
    if status == 200:
        return answer
    if isinstance(answer, dict) and "detail" in answer:
        if answer.get("code") == "unauthenticated":
            raise StackError(answer["detail"], LOOK)
        raise StackError(answer["detail"], "see: ./headrace views list")
    raise StackError(f"the gateway has no answer ({status or 'none'})", LOOK)
