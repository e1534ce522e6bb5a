import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from local_stack.machine.class_archives import class_archives
from local_stack.machine.paths import CHECKOUT
from local_stack.terminal.progress import say

TOOLS = Path(sys.executable).parent
ALL = "--all"
CHECKS = {
    "ruff check": ["ruff", "check"],
    "ruff format": ["ruff", "format", "--check"],
    "mypy": ["mypy"],
    "import walls": ["lint-imports"],
}


def test(context: typer.Context) -> None:
    """Lint, types, import walls, then pytest. With --all also tests that take minutes.

    Example: ./headrace test tests/shared -k fold
    """
    raise typer.Exit(run_checks_and_tests(context.args))


def run_checks_and_tests(arguments: Sequence[str]) -> int:
    """Zero only if every check and every test passed."""
    archives = class_archives()  # here it shows its progress, inside pytest it could not
    if not archives.are_made():
        say("preparing what Java loads, once ...")
        archives.make()
    os.environ.update(archives.spark_submit_opts(os.environ))
    if any(map(_is_elsewhere, arguments)):  # a domain's own tests: no check is about them
        return _pytest("-p", "no:cacheprovider", *arguments)
    failed = [name for name, command in CHECKS.items() if not _passes(name, command)]
    if failed:
        say(f"FAILED before the tests: {', '.join(failed)} (so this run fails, whatever follows)")
    is_whole = not arguments or arguments == [ALL]
    return (_whole_suite(*arguments) if is_whole else _pytest(*arguments)) or bool(failed)


def _is_elsewhere(argument: str) -> bool:
    path = Path(argument.partition("::")[0])
    return path.is_absolute() and path.exists() and not path.is_relative_to(CHECKOUT)


def _pytest(*arguments: str) -> int:
    return subprocess.run([TOOLS / "pytest", *arguments], cwd=CHECKOUT, check=False).returncode


def _whole_suite(*arguments: str) -> int:
    command = [sys.executable, "-m", "tests.side_by_side", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, check=False).returncode


def _passes(name: str, command: Sequence[str]) -> bool:
    tool, *arguments = command
    result = subprocess.run(
        [TOOLS / tool, *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    passed = result.returncode == 0
    say(f"{name}: {'ok' if passed else 'FAILED'}")
    if not passed:
        say(result.stdout + result.stderr)
    return passed
