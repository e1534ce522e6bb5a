import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import typer

from local_stack.machine.class_archives import class_archives
from local_stack.machine.paths import CHECKOUT
from local_stack.machine.processes import tied_to_this_process
from local_stack.terminal.progress import say

TOOLS = Path(sys.executable).parent
CHECKS = {
    "ruff check": ["ruff", "check"],
    "ruff format": ["ruff", "format", "--check"],
    "mypy": ["mypy"],
    "import walls": ["lint-imports"],
}
# so much that both runs take about as long
PATIENT = (
    "tests/end_to_end",
    "tests/faults",
    "tests/flights",
    "tests/stream_jobs/fold/test_race.py",
)
OTHERS = ("tests", *(f"--ignore={path}" for path in PATIENT))


def test(context: typer.Context) -> None:
    """Lint, types, import walls, then pytest.

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
    all_tests = [str(TOOLS / "pytest"), "--durations=25"]
    return (_pytest(*arguments) if arguments else run_side_by_side(all_tests)) or bool(failed)


def _is_elsewhere(argument: str) -> bool:
    path = Path(argument.partition("::")[0])
    return path.is_absolute() and path.exists() and not path.is_relative_to(CHECKOUT)


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


def run_side_by_side(pytest: Sequence[str]) -> int:
    """Zero only if every test of both runs passed. What starts much waits for much of its time, in
    which the others go on. And it is the patient one: where both want a core, it waits.

    One run shows itself as it goes, the other when it is over; the last line adds up both.
    """
    began_s = time.monotonic()
    with tempfile.TemporaryFile() as file:
        beside = subprocess.Popen(
            tied_to_this_process([*pytest, *PATIENT], wrapper=["nice", "-n", "4"]),
            cwd=CHECKOUT,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        try:
            code, output = _run_and_show([*pytest, *OTHERS])
            say(f"\nBeside these ran {', '.join(PATIENT)}:\n")
            code = beside.wait() or code
        finally:
            beside.kill()
            beside.wait()
        file.seek(0)
        output_beside = file.read().decode(errors="replace")
    say(output_beside)
    say(f"Both runs together:\n{total([output, output_beside], time.monotonic() - began_s)}")
    return code


def total(outputs: Sequence[str], took_s: float) -> str:
    """Of their last lines, and worded like them."""
    counts: Counter[str] = Counter()
    for output in outputs:
        last_line = output.rstrip().rpartition("\n")[2]
        found = re.findall(r"(\d+) ([a-z]+)", last_line.partition(" in ")[0])
        counts.update({kind.removesuffix("s"): int(count) for count, kind in found})
        counts["run broken off"] += not found
    said = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()) if count)
    return f"{said} in {took_s:.2f}s"


def _run_and_show(command: Sequence[str]) -> tuple[int, str]:
    output = bytearray()
    with subprocess.Popen(
        tied_to_this_process(command),
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
    ) as run:
        assert run.stdout is not None
        while part := run.stdout.read(4096):
            output += part
            sys.stdout.buffer.write(part)
            sys.stdout.flush()
    return run.returncode, output.decode(errors="replace")
