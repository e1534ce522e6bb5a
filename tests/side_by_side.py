"""`python -m tests.side_by_side`: all tests, in three runs of pytest at the same time."""

import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from local_stack.machine.paths import CHECKOUT
from local_stack.machine.processes import tied_to_this_process
from local_stack.terminal.progress import say

# what starts much, and so waits for much of its time
WHOLE = (
    "tests/doors",
    "tests/faults",
    "tests/fleet",
    "tests/flights",
    "tests/kiosk",
    "tests/orders",
    "tests/shop",
    # last, for its stack runs to the end
    "tests/end_to_end",
)
ON_SPARK = ("tests/stream_jobs",)
# so much of each that all runs take about as long
BESIDE = (WHOLE, ON_SPARK)
_LAST_LINE = re.compile(r"^(?:=+ )?(\d+ [a-z]+(?:, \d+ [a-z]+)*) in [\d.]+s", re.MULTILINE)


def run_side_by_side(pytest: Sequence[str]) -> int:
    """Zero only if every test of all runs passed. While one waits for its servers, the others go
    on. Those beside are the patient ones: where all want a core, they wait.

    The run of all other tests shows itself as it goes, the others when they are over; the last line
    adds them up.
    """
    began_s = time.monotonic()
    others = ("tests", *(f"--ignore={path}" for paths in BESIDE for path in paths))
    with ExitStack() as at_the_end:
        runs = [at_the_end.enter_context(_run_beside([*pytest, *paths])) for paths in BESIDE]
        code, output = _run_and_show([*pytest, *others])
        outputs = [output]
        for paths, (run, file) in zip(BESIDE, runs, strict=True):
            say(f"\nBeside these ran {', '.join(paths)}:\n")
            code = run.wait() or code
            file.seek(0)
            outputs.append(file.read().decode(errors="replace"))
            say(outputs[-1])
    say(f"All runs together:\n{total(outputs, time.monotonic() - began_s)}")
    return code


@contextmanager
def _run_beside(command: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    with tempfile.TemporaryFile() as file:
        run = subprocess.Popen(
            tied_to_this_process(command, wrapper=["nice", "-n", "4"]),
            cwd=CHECKOUT,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        try:
            yield run, file
        finally:
            run.kill()
            run.wait()


def total(outputs: Sequence[str], took_s: float) -> str:
    """Of their last lines, and worded like them."""
    counts: Counter[str] = Counter()
    for output in outputs:
        lines = _LAST_LINE.findall(output)  # other programs may say something after it
        found = re.findall(r"(\d+) ([a-z]+)", lines[-1]) if lines else []
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


if __name__ == "__main__":
    sys.exit(run_side_by_side([str(Path(sys.executable).parent / "pytest"), "--durations=25"]))
