"""Pictures of the desk's pages, of a whole stack to which a fleet posts.

python -m tests.desk.pictures docs/pictures
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from local_stack.run.stack import Stack
from tests.desk.browser import Browser
from tests.kafka_log import eventually

WIDTH, HEIGHT = 1200, 760
_FLEET = ("--devices", "300", "--rate", "150", "--seed", "7", "--seconds", "600")
_BROKEN = (b'{"value": "21.5"}', b'{"value": 21,5}', b'{"value": "21.5"}', b'{"kelvin": 294.65}')
_LETTERS = 400
_WATCHED = "device-0042"
_LOOKED_AT_FOR_S = 60.0  # what is of the last minute has come by then


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="headrace-pictures-") as scratch,
        Stack(Path(scratch) / "state", random_ports=True) as stack,
        Browser(Path(scratch) / "chromium") as browser,
    ):
        _park(stack.gateway_url)
        _operate(stack)
        with _fleet(stack):
            desk = str(stack.desk_url)
            eventually(lambda: _parked(desk) >= _LETTERS)
            time.sleep(_LOOKED_AT_FOR_S)
            browser.look_like(width=WIDTH, height=HEIGHT)
            for name, path in _pages(desk).items():
                browser.open(desk + path)
                time.sleep(2)  # the page of the flow fills itself
                (folder / f"{name}.png").write_bytes(browser.picture())
                print(f"{name}: {path}", flush=True)


def _pages(desk: str) -> dict[str, str]:
    letters = httpx.get(f"{desk}/api/letters", params={"cause": "wrong_type"}).json()["letters"]
    return {
        "flow": "/flow",
        "letters": "/",
        "letter": f"/letters/{letters[0]['id']}",
        "entity": f"/entities/{_WATCHED}",
        "jobs": "/jobs",
        "ledger": "/ledger",
        "waiting": "/waiting",
        "webhooks": "/webhooks",
        "credentials": "/credentials",
        "audit": "/audit",
    }


def _park(gateway: str) -> None:
    with httpx.Client(base_url=gateway) as http:
        for number in range(_LETTERS):
            device = f"device-{number * 37 % 1000 + 1:04}"
            body = _BROKEN[number % len(_BROKEN)]
            http.post(f"/v1/telemetry/{device}", content=body).raise_for_status()


def _operate(stack: Stack) -> None:
    """So that lists are not empty. No webhook of these is ever sent anything."""
    url = "https://example.org/in"
    _run(stack, "hooks", "add", "alarms", url, "--type", "alarm_raised", "--where", "value > 1000")
    _run(stack, "hooks", "add", "billing", url, "--of", "states", "--where", "value > 1000")
    _run(stack, "hooks", "pause", "billing")
    for owner in (("--device", _WATCHED), ("--gateway",), ("--operator", "--may", "look")):
        _run(stack, "credentials", "add", *owner)
    _run(stack, "jobs", "pause", "forward", "--why", "the receiver's network is changed")


def _run(stack: Stack, *words: str) -> None:
    command = [sys.executable, "-m", "local_stack", *words, "--state-dir", str(stack.state_dir)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def _fleet(stack: Stack) -> Iterator[None]:
    command = [sys.executable, "-m", "local_stack", "demo", *_FLEET]
    fleet = subprocess.Popen(
        [*command, "--state-dir", str(stack.state_dir)], stdout=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        fleet.terminate()
        fleet.wait()


def _parked(desk: str) -> int:
    groups = httpx.get(f"{desk}/api/groups", params={"by": "status"}).json()["groups"]
    return sum(one["letters"] for one in groups)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
