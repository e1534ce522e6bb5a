"""`./headrace test`: the quick checks first, then pytest, whose own line (or the sum of two) comes
last; and the fault rig, which stands among the tests."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from local_stack.develop.side_by_side import run_side_by_side
from local_stack.machine.class_archives import class_archives
from local_stack.machine.downloads import fetch_downloads
from local_stack.machine.java import find_java
from local_stack.machine.paths import CHECKOUT, python_path
from local_stack.terminal.errors import StackError
from local_stack.terminal.progress import say

TOOLS = Path(sys.executable).parent
CHECKS = {
    "ruff check": ["ruff", "check"],
    "ruff format": ["ruff", "format", "--check"],
    "mypy": ["mypy"],
    "import walls": ["lint-imports"],
}


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
    return (_pytest(*arguments) if arguments else _all_tests()) or bool(failed)


def run_fault_rig(arguments: Sequence[str]) -> NoReturn:
    """In place of this process: Ctrl-C then goes to the rig alone, which ends its stack."""
    rig = CHECKOUT / "tests" / "faults" / "whole"
    if not rig.exists():
        raise StackError(
            f"the fault rig is not there: {rig}", "it is a part of the tests: run it in a checkout"
        )
    fetch_downloads(find_java())
    command = [sys.executable, "-P", "-m", "tests.faults.whole", *arguments]
    os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": python_path()})


def _is_elsewhere(argument: str) -> bool:
    path = Path(argument.partition("::")[0])
    return path.is_absolute() and path.exists() and not path.is_relative_to(CHECKOUT)


def _all_tests() -> int:
    return run_side_by_side([str(TOOLS / "pytest"), "--durations=25"])


def _pytest(*arguments: str) -> int:
    return subprocess.run([TOOLS / "pytest", *arguments], cwd=CHECKOUT, check=False).returncode


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
