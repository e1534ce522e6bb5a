"""The drill: thousands of dead letters of three causes, found, fixed and sent on again by the steps
that the documents name, on a stack of its own. Then what came out is held against what was sent.

    python -m tests.desk.drill
"""

import argparse
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.desk.drill_judge import Sent, violations
from tests.desk.drill_stack import DrillStack

COMMA = r"sed -E 's/([0-9]),([0-9])/\1.\2/'"
KELVIN = "thermo-k"
_FITS = "it would become this event"
_LINES_SHOWN = 16
_MAX_S = 300.0


class Cause(NamedTuple):
    name: str
    devices: tuple[str, ...]
    payload: str  # what such a device sends, with a number in the place of %s


CAUSES = (
    # the bytes are wrong: a decimal comma
    Cause("not_json", tuple(f"device-{n:04}" for n in range(1, 300) if n % 10), '{"value": %s}'),
    # what is known is wrong: other sensors were put in
    Cause("field_missing", tuple(f"device-{n:04}" for n in range(301, 304)), '{"kelvin": %s}'),
    # the code is wrong: it should take a number that stands in quotes
    Cause(
        "wrong_type", tuple(f"device-{n:04}" for n in range(401, 700) if n % 10), '{"value": "%s"}'
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.desk.drill", description=__doc__)
    parser.add_argument("--letters", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, help="where all data is kept; default: a new one")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="headrace-drill-"))
    drill = Drill(folder)
    with drill.stack:
        drill.park(options.letters)
        began_s = time.monotonic()
        try:
            drill.work()
        except (RuntimeError, TimeoutError, httpx.HTTPError) as error:
            drill.violations.append(f"it was broken off: {error}")
        took_s = time.monotonic() - began_s
        found = [*drill.violations, *violations(drill.sent, drill.stack)]
    for one in found[:20]:
        print(f"VIOLATION {one}")
    print("\n".join(["| step | seconds |", "|---|---|", *drill.rows]))
    print(f"\n{options.letters} letters in {took_s:.0f} s, {len(found)} violations; see {folder}")
    return 0 if took_s < _MAX_S and not found else 1


class Drill:
    def __init__(self, folder: Path) -> None:
        self.stack = DrillStack(folder)
        self.sent: list[Sent] = []
        self.rows: list[str] = []
        self.violations: list[str] = []

    def park(self, letters: int) -> None:
        with self._step("not counted: a stack is started, payloads are posted and parked"):
            self.stack.up()
            self._post([(device, '{"value": 30}', 30.0) for c in CAUSES for device in c.devices])
            broken = [
                self._broken(CAUSES[n % 3], n // 3, 20.0 + n % 390 / 10) for n in range(letters)
            ]
            self._post(broken)
            well = [c for c in CAUSES if c.name != "field_missing"]
            self._post([(device, '{"value": 40}', 40.0) for c in well for device in c.devices])
            self._until(lambda: self._counts("status") == {"parked": letters})

    def work(self) -> None:
        self.find()
        self.meet_a_letter_that_comes_back()
        self.fix_what_is_known()
        self.fix_the_bytes()
        self.fix_the_code()
        self.wait_for_the_end()

    def find(self) -> None:
        with self._step("found: by cause, and one of each looked at"):
            self._operate("letters", "list", "--by", "cause")
            for cause in CAUSES:
                self._operate("letters", "list", "--cause", cause.name, "--limit", "3")
                self._operate("letters", "show", self._one_of(cause))

    def meet_a_letter_that_comes_back(self) -> None:
        device = CAUSES[2].devices[0]
        with self._step("one device's letters sent on unmended: they come back and say how often"):
            before = self._times(device)
            self._operate("letters", "redrive", "--entity", device)
            self._until(lambda: self._times(device) == [2] * len(before))

    def fix_what_is_known(self) -> None:
        cause = CAUSES[1]
        with self._step(f"{cause.name}: a model added, {len(cause.devices)} devices set to it"):
            scale = ("--value-field", "kelvin", "--unit", "celsius", "--offset", "-273.15")
            self._operate("devices", "add-model", KELVIN, *scale)
            for device in cause.devices:
                self._operate("devices", "set", device, "--model", KELVIN)
        self._redrive(cause)

    def fix_the_bytes(self) -> None:
        self._redrive(CAUSES[0], "--through", COMMA)

    def fix_the_code(self) -> None:
        with self._step(f"{CAUSES[2].name}: the code mended, jobs and desk started again"):
            self.stack.mend_the_code()
            for part in ("spark", "desk"):
                self._operate("chaos", part, "down")
                self._operate("chaos", part, "up")
        self._redrive(CAUSES[2])

    def wait_for_the_end(self) -> None:
        with self._step("until every letter is done and the ledger is closed"):
            self._until(lambda: self._counts("status").keys() == {"done"})
            self._until(self._ledger_is_closed)

    def _redrive(self, cause: Cause, *mended: str) -> None:
        with self._step(f"{cause.name}: one tried, all sent on again"):
            one = self._one_of(cause)
            self._until(lambda: _FITS in self._operate("letters", "try", one, *mended))
            meant = ("--cause", cause.name, *mended)
            if " 0 refused" not in self._operate("letters", "redrive", *meant, "--rate", "2000"):
                self.violations.append(f"{cause.name}: letters were refused")

    def _broken(self, cause: Cause, number: int, value: float) -> tuple[str, str, float]:
        device = cause.devices[number % len(cause.devices)]
        told = f"{value:.1f}"
        if cause.name == "field_missing":
            return device, cause.payload % told, float(told) - 273.15
        if cause.name == "not_json":
            return device, cause.payload % told.replace(".", ","), float(told)
        return device, cause.payload % told, float(told)

    def _post(self, payloads: list[tuple[str, str, float]]) -> None:
        ids = self.stack.post([(device, text.encode()) for device, text, _ in payloads])
        self.sent += [
            Sent(id_, device, value) for id_, (device, _, value) in zip(ids, payloads, strict=True)
        ]

    def _operate(self, *arguments: str) -> str:
        """And shows what an operator sees."""
        said = self.stack.run(*arguments)
        shown = [line[:150] for line in said.splitlines()[:_LINES_SHOWN]]
        print("\n".join([f"$ ./headrace {shlex.join(arguments)}", *shown]), flush=True)
        return said

    def _counts(self, by: str) -> dict[str, int]:
        groups = self.stack.ask_desk("groups", by=by)["groups"]
        return {one[by]: one["letters"] for one in groups}

    def _times(self, device: str) -> list[int]:
        found = self.stack.ask_desk("letters", entity_id=device, status="parked", limit=1000)
        return [one["times"] for one in found["letters"]]

    def _one_of(self, cause: Cause) -> str:
        found = self.stack.ask_desk("letters", cause=cause.name, status="parked", limit=1)
        return str(found["letters"][0]["id"])

    def _ledger_is_closed(self) -> bool:
        ledger = self.stack.json("ledger")
        return int(ledger["stored"]) == int(ledger["received"]) == len(self.sent)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        began_s = time.monotonic()
        print(f"{name} …", flush=True)
        yield
        took_s = time.monotonic() - began_s
        print(f"  {took_s:.1f} s", flush=True)
        self.rows.append(f"| {name} | {took_s:.0f} |")

    def _until(self, holds: Callable[[], bool], within_s: float = 300.0) -> None:
        deadline = time.monotonic() + within_s
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {within_s:.0f} s")
            time.sleep(2.0)


if __name__ == "__main__":
    sys.exit(main())
