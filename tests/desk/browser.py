"""Debian's chromium without a window, spoken to through chromedriver (the W3C's WebDriver)."""

import re
import shutil
import subprocess
import time
from base64 import b64decode
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import pytest

from local_stack.machine.processes import tied_to_this_process

TAB, ENTER, SPACE, CONTROL = "\ue004", "\ue007", " ", "\ue009"
_PATIENCE_S = 120.0
_TABS_MAX = 60
_IS_FOCUSED = """
    const here = document.activeElement;
    return here.matches(arguments[0]) && here.textContent.includes(arguments[1]);
"""


def missing() -> str:
    """What is not there; empty where a browser can be had."""
    there_is_none = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return " and ".join(there_is_none)


def needed(what: str) -> pytest.MarkDecorator:
    """`what`: is not tested where none can be had, and that is said."""
    reason = f"{what} NOT TESTED IN A BROWSER: {missing()} is not on PATH"
    hint = "(apt-get install chromium chromium-driver)"
    return pytest.mark.skipif(bool(missing()), reason=f"{reason} {hint}")


class Browser:
    def __init__(self, folder: Path) -> None:
        """`folder`: for all that it writes."""
        self._driver, address = _started()
        self._http = httpx.Client(base_url=address, timeout=60, trust_env=False)
        arguments = (
            *("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"),
            *("--disable-background-networking", "--force-color-profile=srgb"),
            f"--user-data-dir={folder}",
        )
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"performance": "ALL", "browser": "ALL"},
        }
        self._session = ""
        session = self._ask("POST", "session", capabilities={"alwaysMatch": wanted})
        self._session = f"session/{session['sessionId']}/"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._ask("DELETE", "")
        finally:
            self._http.close()
            self._driver.kill()
            self._driver.communicate()

    def open(self, url: str) -> None:
        self._ask("POST", "url", url=url)

    def run(self, script: str, *arguments: Any) -> Any:
        """What `return` returns."""
        return self._ask("POST", "execute/sync", script=script, args=arguments)

    def press(self, *keys: str) -> None:
        """Wherever the focus is; a text is typed. CONTROL is held for what follows it."""
        strokes = [
            {"type": kind, "value": key}
            for text in keys
            for key in text
            for kind in (("keyDown",) if key == CONTROL else ("keyDown", "keyUp"))
        ]
        self._ask("POST", "actions", actions=[{"type": "key", "id": "keys", "actions": strokes}])
        self._ask("DELETE", "actions")  # lets go of it

    def tab_to(self, selector: str, text: str = "") -> None:
        """By the keyboard alone, to the next of these that holds the text."""
        for _ in range(_TABS_MAX):
            self.press(TAB)
            if self.run(_IS_FOCUSED, selector, text):
                return
        raise AssertionError(f"{_TABS_MAX} tabs lead to no {selector!r} with {text!r}")

    def text(self) -> str:
        return str(self.run("return document.body.innerText"))

    def until_it_says(self, text: str) -> str:
        """All that it says then."""
        deadline = time.monotonic() + _PATIENCE_S
        while text not in (said := self.text()):
            assert time.monotonic() < deadline, f"{text!r} is not in {said!r}"
            time.sleep(0.05)
        return said

    def look_like(self, scheme: str = "light", width: int = 1280, height: int = 900) -> None:
        """A colour scheme and a window."""
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        self._tell("Emulation.setEmulatedMedia", features=media)
        self._tell(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def picture(self) -> bytes:
        return b64decode(self._ask("GET", "screenshot"))

    def requested(self) -> list[str]:
        """The addresses that it has asked for since this was asked last."""
        entries = self._ask("POST", "se/log", type="performance")
        found = (
            re.search(r'"Network.requestWillBeSent".*?"request":\{.*?"url":"([^"]*)"', e["message"])
            for e in entries
        )
        return [one[1] for one in found if one]

    def complaints(self) -> list[str]:
        """Of its console: a script that was forbidden, a file that was not there."""
        entries = self._ask("POST", "se/log", type="browser")
        return [one["message"] for one in entries if one["level"] in ("WARNING", "SEVERE")]

    def _tell(self, command: str, **parameters: Any) -> None:
        self._ask("POST", "goog/cdp/execute", cmd=command, params=parameters)

    def _ask(self, method: str, path: str, **body: Any) -> Any:
        sent = {"json": body} if method == "POST" else {}
        answer = self._http.request(method, f"{self._session}{path}".rstrip("/"), **sent)
        value = answer.json()["value"]
        assert answer.status_code == 200, value
        return value


def _started() -> tuple["subprocess.Popen[str]", str]:
    """It chooses a port by IPv4, and ends if another process has the same one by IPv6."""
    said: list[str] = []
    for _ in range(3):
        driver = subprocess.Popen(
            tied_to_this_process(["chromedriver", "--port=0"]),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert driver.stdout
        for line in driver.stdout:
            said.append(line)
            if port := re.search(r"started successfully on port (\d+)", line):
                return driver, f"http://127.0.0.1:{port[1]}/"
        driver.stdout.close()
        driver.wait()
    raise AssertionError(f"chromedriver did not start: {''.join(said)}")
