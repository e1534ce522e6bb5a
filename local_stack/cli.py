"""The verbs of `./headrace`."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from local_stack import chaos, devices, look
from local_stack.errors import StackError
from local_stack.locks import running_launcher
from local_stack.logs import log_path, tail
from local_stack.options import StateDir
from local_stack.paths import state_dir as default_state_dir
from local_stack.progress import say
from local_stack.status import read_status

STOP_WAIT_S = 60.0

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="""Headrace on this machine: Kafka, PostgreSQL, the gateway and the Spark jobs.

    Example: ./headrace up
    """,
)
app.add_typer(devices.app, name="devices")


class Part(StrEnum):
    POSTGRES = "postgres"
    KAFKA = "kafka"
    SPARK = "spark"


class Direction(StrEnum):
    DOWN = "down"
    UP = "up"


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


def main() -> None:
    """Errors as one sentence and what to do; HEADRACE_DEBUG=1 shows where they come from."""
    debug = bool(os.environ.get("HEADRACE_DEBUG"))
    try:
        app(prog_name="headrace")
    except StackError as error:
        if debug:
            raise
        print(f"headrace: {error.what}", file=sys.stderr)
        if error.fix:
            print(f"          {error.fix}", file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        if debug:
            raise
        print(f"headrace: {type(error).__name__}: {error}".strip(), file=sys.stderr)
        print("          set HEADRACE_DEBUG=1 to see where it comes from", file=sys.stderr)
        sys.exit(1)


@app.command()
def up(
    random_ports: Annotated[
        bool, typer.Option("--random-ports", help="Free ports, so that stacks run side by side.")
    ] = False,
    state_dir: StateDir = None,
) -> None:
    """Start everything and stay in front; Ctrl-C stops it.

    Example: ./headrace up
    """
    from local_stack.foreground import run_in_foreground

    run_in_foreground(_folder(state_dir), random_ports=random_ports)


@app.command()
def status(
    output: Annotated[Output, typer.Option("-o", "--output", help="How to print.")] = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """What runs, and where; exit code 0 if all is ready.

    Example: ./headrace status -o json
    """
    found = read_status(_folder(state_dir))
    say(json.dumps(found, indent=2) if output is Output.JSON else _table(found))
    raise typer.Exit(0 if found["ready"] else 1)


@app.command()
def stop(state_dir: StateDir = None) -> None:
    """Stop the running stack; its data stays.

    Example: ./headrace stop
    """
    folder = _folder(state_dir)
    launcher = running_launcher(folder)
    if launcher is None:
        say(f"No stack runs on {folder}.")
        return
    os.kill(launcher, signal.SIGTERM)
    deadline = time.monotonic() + STOP_WAIT_S
    while running_launcher(folder) is not None:
        if time.monotonic() > deadline:
            raise StackError(f"the launcher (pid {launcher}) does not end", f"kill -9 {launcher}")
        time.sleep(0.1)
    say("Stopped.")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def test(context: typer.Context) -> None:
    """Lint, types, import walls, then pytest.

    Example: ./headrace test tests/shared -k fold
    """
    from local_stack.checks import run_checks_and_tests

    raise typer.Exit(run_checks_and_tests(context.args))


@app.command()
def flow() -> None:
    """Draw which event ignites what next.

    Example: ./headrace flow
    """
    from local_stack.settings_check import chosen_flow

    say(chosen_flow().picture())


@app.command("chaos")
def chaos_(part: Part, direction: Direction, state_dir: StateDir = None) -> None:
    """Take a part down and up again.

    Example: ./headrace chaos postgres down
    """
    turn: Callable[[Path, str], None] = chaos.hold if direction is Direction.DOWN else chaos.release
    turn(_folder(state_dir), part.value)
    say(f"{part.value} is {direction.value}")


@app.command()
def reset(
    yes: Annotated[bool, typer.Option("--yes", help="Needed: all data goes.")] = False,
    state_dir: StateDir = None,
) -> None:
    """Remove all topics, rows and state.

    Example: ./headrace reset --yes
    """
    folder = _folder(state_dir)
    if running_launcher(folder) is not None:
        raise StackError(f"a stack runs on {folder}", "stop it first: ./headrace stop")
    if not folder.exists():
        say(f"There is nothing in {folder}.")
        return
    if not (folder / "launcher.pid").exists():
        raise StackError(f"{folder} is no state folder of Headrace", "remove it yourself")
    if not yes:
        raise StackError(f"this removes all data in {folder}", "if you mean it, add --yes")
    shutil.rmtree(folder)
    say(f"Removed {folder}.")


@app.command()
def version() -> None:
    """The versions of Headrace and of its parts.

    Example: ./headrace version
    """
    from local_stack.versions import versions

    for name, number in versions().items():
        say(f"{name:<12} {number}")


@app.command()
def logs(
    name: str,
    lines: Annotated[int, typer.Option("-n", "--lines", min=1, help="How many of the last.")] = 50,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as it grows.")] = False,
    state_dir: StateDir = None,
) -> None:
    """Show a part's log.

    Example: ./headrace logs spark --follow
    """
    path = log_path(_folder(state_dir), name)
    if not path.exists():
        there = ", ".join(sorted(p.stem for p in path.parent.glob("*.log"))) or "none yet"
        raise StackError(f"there is no log named {name}", f"logs: {there}")
    if follow:
        subprocess.run(["tail", "-n", str(lines), "-F", str(path)], check=False)
        return
    say("\n".join(tail(path)[-lines:]))


app.command("tail")(look.tail)
app.command("sql")(look.sql)


def _folder(chosen: Path | None) -> Path:
    return (chosen or default_state_dir()).absolute()


def _table(found: dict[str, Any]) -> str:
    rows = [
        ("ready", "yes" if found["ready"] else "no" if found["running"] else "no, not running"),
        ("gateway", found["gateway_url"]),
        ("Kafka bootstrap", found["kafka_bootstrap"]),
        ("PostgreSQL", found["postgres_url"]),
        ("state folder", found["state_dir"]),
    ]
    rows += [
        (name, f"{service['state']}, pid {service['pid']}" if service["pid"] else service["state"])
        for name, service in found["services"].items()
    ]
    said = found["job_outputs"]
    rows += [
        (f"job {name}", f"{state}: {said[name]}" if name in said else state)
        for name, state in found["jobs"].items()
    ]
    return "\n".join(f"{name:<16} {value or '-'}" for name, value in rows)
