"""A whole stack as an operator has it: `./headrace`, with a domain whose code can be mended."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import httpx

from local_stack.machine.paths import CHECKOUT
from local_stack.machine.processes import tied_to_this_process
from shared.sample_domain import telemetry

_AT_ONCE = 2000
_READY_WITHIN_S = 300.0
_FLOW = """
from dataclasses import replace

from shared.flow import FLOW as SAMPLE

FLOW = replace(
    SAMPLE,
    endpoints=(replace(SAMPLE.endpoints[0], enrich=to_reading), *SAMPLE.endpoints[1:]),
)
"""
_LINE = "    value: Any = payload[name]\n"
_MENDED = "    value = float(value) if isinstance(value, str) else value\n"


class DrillStack:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._code = folder / "domain" / "drilled.py"
        self._code.parent.mkdir(parents=True, exist_ok=True)
        self._code.write_text(Path(telemetry.__file__).read_text() + _FLOW)
        self._environment = {
            **os.environ,
            "HEADRACE_STATE_DIR": str(folder / "state"),
            "HEADRACE_FLOW": "drilled:FLOW",
            "PYTHONPATH": str(self._code.parent),
        }
        self._launcher: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def mend_the_code(self) -> None:
        self._code.write_text(self._code.read_text().replace(_LINE, _LINE + _MENDED))

    def up(self) -> None:
        with (self._folder / "up.log").open("ab") as log:
            command = [str(CHECKOUT / "headrace"), "up", "--random-ports"]
            self._launcher = subprocess.Popen(
                tied_to_this_process(command, orphan_signal=signal.SIGTERM),
                stdout=log,
                stderr=log,
                env=self._environment,
            )
        deadline = time.monotonic() + _READY_WITHIN_S
        while not self._ask("status").get("ready"):
            if self._launcher.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the stack is not ready: see {self._folder / 'up.log'}")
            time.sleep(2.0)
        self.status = self._ask("status")

    def down(self) -> None:
        if self._launcher is not None:
            self._launcher.terminate()
            self._launcher.wait(60)
            self._launcher = None

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [CHECKOUT / "headrace", *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"headrace {' '.join(arguments)}: {done.stderr or done.stdout}")
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "-o", "json"))

    def ask_desk(self, what: str, **asked: Any) -> Any:
        # it may just have been started
        with httpx.Client(transport=httpx.HTTPTransport(retries=6), timeout=30) as http:
            answer = http.get(f"{self.status['desk_url']}/api/{what}", params=asked)
            return answer.raise_for_status().json()

    def post(self, payloads: list[tuple[str, bytes]]) -> list[str]:
        """The ids of their events."""
        ids: list[str] = []
        with httpx.Client(base_url=self.status["gateway_url"], timeout=60) as http:
            for at in range(0, len(payloads), _AT_ONCE):
                frames = b"".join(
                    b"%s %d\n%s\n" % (device.encode(), len(value), value)
                    for device, value in payloads[at : at + _AT_ONCE]
                )
                media_type = {"content-type": "application/vnd.headrace.frames"}
                answer = http.post("/v1/telemetry", content=frames, headers=media_type).json()
                assert answer["refused"] == 0, answer
                ids += [receipt["id"] for receipt in answer["receipts"]]
        return ids

    def _ask(self, verb: str) -> dict[str, Any]:
        done = subprocess.run(
            [CHECKOUT / "headrace", verb, "-o", "json"],
            env=self._environment,
            capture_output=True,
            check=False,
        )
        try:
            return dict(json.loads(done.stdout))
        except ValueError:
            return {}
