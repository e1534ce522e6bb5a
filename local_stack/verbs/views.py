"""`./headrace views`: the flow's views, their rows, and whether their SQL is one for a view."""

import json
import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from typing import Annotated, Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import typer

from local_stack.run.health import ask, json_or_none, open_stream
from local_stack.run.operator_token import operator_token
from local_stack.run.options import StateDir, folder_of
from local_stack.run.server_addresses import running_stack
from local_stack.terminal.errors import LOOK, StackError
from local_stack.terminal.output import Output, OutputOption, say_found, say_rows
from local_stack.terminal.progress import say
from local_stack.views.compare import Rows, columns_of_one_alone, compare
from shared.folding.snapshot import META
from shared.tables.view_rows import PARAMETERS, WINDOW

app = typer.Typer(
    no_args_is_help=True,
    help="""Views in SQL: list, show, tail, diff, check.

    Example: ./headrace views show by_area --where area=north
    """,
)

# a stream that shows nothing says every 15 s that it is there (HEADRACE_EVENT_HEARTBEAT_S)
_QUIET_S = 60.0
_COME_AGAIN_S = 1.0
_SHOWN = "name", "version", "of", "key", "results", "watermark", "late", "pipeline_lag_s", "stale"
_AT_ONCE = 1000
_LOOKS = 5


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
    wanted = dict(_pair("where", one) for one in where or ()) | ({"sort": sort} if sort else {})
    found = _asked(f"/views/{name}?{urlencode({**wanted, 'limit': limit})}", state_dir)
    if output is Output.JSON:
        say_found(found, "", output)
        return
    rows = [_without_meta(row) for row in found["rows"]]
    say_rows(rows, output, "No row is like that.")
    if found["next"]:
        say(f"\nThere are more: --where next={found['next']}")
    if found["stale"]:
        say(f"\nThe view is behind: {found['stale_because']}")


@app.command()
def tail(
    name: str,
    key: Annotated[
        list[str] | None, typer.Option(help="COLUMN=VALUE of the key, from=… or until=…")
    ] = None,
    from_now: Annotated[
        bool, typer.Option("--from-now", help="Only changes, without the rows that there are.")
    ] = False,
    state_dir: StateDir = None,
) -> None:
    """A view's rows and then each change as it comes, a line of JSON each, until Ctrl-C.

    Example: ./headrace views tail by_area --key area=north
    """
    wanted = dict(_pair("key", one) for one in key or ()) | ({"from_now": ""} if from_now else {})
    folder = folder_of(state_dir)
    url = f"{running_stack(folder)['gateway_url']}/views/{name}?{urlencode(wanted)}"
    token = operator_token(folder)
    headers = {"accept": "text/event-stream"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    with suppress(KeyboardInterrupt):
        for row in rows_as_they_come(url, headers):
            say(row)


def rows_as_they_come(url: str, headers: dict[str, str]) -> Iterator[str]:
    """Whenever the stream ends, it is asked for again from where it was."""
    while True:
        try:
            with open_stream(url, headers, _QUIET_S) as lines:
                message: dict[str, str] = {}
                for line in lines:
                    if line:
                        field, _, value = line.partition(": ")
                        message[field] = value
                        continue
                    if "data" in message and "event" not in message:  # it is no last word
                        yield message["data"]
                    headers["last-event-id"] = message.get("id", headers.get("last-event-id", ""))
                    message = {}
        except HTTPError as refusal:
            if refusal.code != HTTPStatus.SERVICE_UNAVAILABLE:
                raise _refused(json_or_none(refusal.read()), refusal.code) from None
        except (OSError, HTTPException):
            pass  # it comes again
        time.sleep(_COME_AGAIN_S)


@app.command()
def diff(
    name: str,
    where: Annotated[
        list[str] | None, typer.Option(help="COLUMN=VALUE of the key, from=…, until=…")
    ] = None,
    to: Annotated[
        int | None, typer.Option(help="Of several versions beside the one that is shown, which.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many differences to show.")] = 20,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Compare a view with the version that is made beside it: ends with 1 where rows differ.

    Rows that change too often to be seen at the same time of the log are looked at several times.

    Example: ./headrace views diff by_area
    """
    listed = [one for one in _asked("/views", state_dir)["views"] if one["name"] == name]
    old, new = _two_versions(name, listed, to)
    selected = dict(_pair("where", one) for one in where or ())
    _refuse_what_both_judge(selected)
    for look in range(_LOOKS):
        time.sleep(_COME_AGAIN_S if look else 0)
        its, others = (_rows(one, selected, state_dir) for one in (old, new))
        found = compare(its, others)
        if not found.undecided:
            break
    only_old, only_new = columns_of_one_alone(its, others)
    told = {
        "view": name,
        "versions": [old["version"], new["version"]],
        "alike": found.alike,
        "different": len(found.differences),
        "undecided": found.undecided,
        "columns_of_one_alone": [only_old, only_new],
        "differences": [one._asdict() for one in found.differences[:limit]],
    }
    say_found(told, "\n".join(diff_lines(told)), output)
    raise typer.Exit(1 if found.differences or found.undecided else 0)


def diff_lines(told: dict[str, Any]) -> Iterator[str]:
    old, new = told["versions"]
    for one in told["differences"]:
        yield one["key"]
        for version, row in ((old, one["old"]), (new, one["new"])):
            text = "no such row" if row is None else json.dumps(_without_meta(row))
            yield f"  version {version}: {text}"
    for version, columns in zip((old, new), told["columns_of_one_alone"], strict=True):
        if columns:
            yield f"Only version {version} has {', '.join(columns)}."
    yield f"{told['view']}: {told['alike']} rows alike, {told['different']} differ."
    if told["undecided"]:
        yield (
            f"{told['undecided']} more cannot be compared: the two have not read the log equally "
            "far yet, or these rows change too often. ./headrace views list says how far they are."
        )


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


def _refuse_what_both_judge(selected: Iterable[str]) -> None:
    """Each version by itself: what is closed in one may be open in the other."""
    for name in selected:
        if name in PARAMETERS and name not in ("from", "until"):
            raise StackError(
                f"two versions are not compared by {name}",
                "choose rows by a column of the key, from=… or until=…",
            )


def _two_versions(name: str, listed: list[Any], to: int | None) -> tuple[Any, Any]:
    shown = next((one for one in listed if one["shown"]), None)
    beside = [one for one in listed if not one["shown"] and to in (None, one["version"])]
    if shown is None:
        raise StackError(f"there is no view {name}", "see: ./headrace views list")
    if not beside:
        which = "no other version" if to is None else f"no version {to}"
        raise StackError(
            f"{name} has {which} beside the one that is shown, {shown['version']}",
            "add the changed row to the flow's views, with a higher version, beside the old row",
        )
    new = max(beside, key=lambda one: one["version"])
    if shown["key"] != new["key"]:
        raise StackError(
            f"the keys of the two versions of {name} have other columns: no row is like another",
            f"look at both: ./headrace views show {name} --where version={new['version']}",
        )
    return shown, new


def _rows(of: Any, selected: dict[str, str], state_dir: StateDir) -> Rows:
    asked = {**selected, "version": of["version"], "limit": _AT_ONCE}
    pages: list[Any] = []
    while not pages or pages[-1]["next"] is not None:
        after = {"next": pages[-1]["next"]} if pages else {}
        path = f"/views/{of['name']}?{urlencode({**asked, **after})}"
        pages.append(_asked(path, state_dir))
    rows = [row for page in pages for row in page["rows"]]
    return Rows.of(rows, (*of["key"], WINDOW), pages[0]["read_to"])


def _without_meta(row: dict[str, Any]) -> dict[str, Any]:
    return {name: its for name, its in row.items() if name != META}


def _pair(option: str, told: str) -> tuple[str, str]:
    name, is_there, value = told.partition("=")
    if not is_there:
        raise StackError(f"--{option} {told} has no =", f"write it as --{option} COLUMN=VALUE")
    return name, value


def _asked(path: str, state_dir: StateDir) -> Any:
    folder = folder_of(state_dir)
    url = running_stack(folder)["gateway_url"]
    status, answer = ask(f"{url}{path}", operator_token(folder))
    if status == 200:
        return answer
    raise _refused(answer, status)


def _refused(answer: Any, status: int) -> StackError:
    if isinstance(answer, dict) and "detail" in answer:
        is_unknown = answer.get("code") == "unauthenticated"
        return StackError(answer["detail"], LOOK if is_unknown else "see: ./headrace views list")
    return StackError(f"the gateway has no answer ({status or 'none'})", LOOK)
