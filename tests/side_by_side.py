"""`python -m tests.side_by_side`: the tests, in two runs of pytest at the same time; with `--all`
also those that are marked `long`."""

import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from local_stack.machine.paths import CHECKOUT
from local_stack.machine.processes import tied_to_this_process
from local_stack.terminal.progress import say

# so much that both runs take about as long
PATIENT = (
    "tests/balanced",
    "tests/cluster",
    "tests/doors",
    "tests/faults",
    "tests/fleet",
    "tests/flights",
    "tests/kiosk",
    "tests/local_stack/run/test_real_up.py",
    "tests/orders",
    "tests/shop",
    "tests/stream_jobs/fold/test_race.py",
    "tests/stream_jobs/views",
    # last, for its stack runs to the end
    "tests/end_to_end",
)
OTHERS = ("tests", *(f"--ignore={path}" for path in PATIENT))
_LAST_LINE = re.compile(r"^(?:=+ )?(\d+ [a-z]+(?:, \d+ [a-z]+)*) in [\d.]+s", re.MULTILINE)
_FAILED = re.compile(r"^(?:FAILED|ERROR) .*", re.MULTILINE)


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
    outputs = [output, output_beside]
    last_line = total(outputs, time.monotonic() - began_s)
    say("\n".join(["Both runs together:", *failed(outputs), last_line]))
    return code


def failed(outputs: Sequence[str]) -> list[str]:
    """One line for each test, however much the runs have said before."""
    return [line for output in outputs for line in _FAILED.findall(output)]


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
    chosen = [] if "--all" in sys.argv else ["-m", "not long"]
    pytest = str(Path(sys.executable).parent / "pytest")
    sys.exit(run_side_by_side([pytest, "--durations=25", *chosen]))
