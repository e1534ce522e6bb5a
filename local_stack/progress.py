"""One short line per stage, rewritten in place on a terminal. Standard library only."""

import sys
import time
from contextlib import suppress

SECONDS_BETWEEN_LINES_IN_A_LOG = 10.0


def say(line: str) -> None:
    with suppress(OSError):  # a reader that went away must not take the stack down
        print(line, flush=True)


class Progress:
    """A line that counts up: on a terminal always the newest, in a log one every ten seconds."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.began = time.monotonic()
        self._shown = float("-inf")
        self._on_terminal = sys.stdout.isatty()

    def show(self, detail: str) -> None:
        now = time.monotonic()
        if self._on_terminal:
            print(f"\r\033[K{self.title}: {detail}"[:110], end="", flush=True)
        elif now - self._shown >= SECONDS_BETWEEN_LINES_IN_A_LOG:
            self._shown = now
            say(f"{self.title}: {detail}")

    def done(self, detail: str) -> None:
        start = "\r\033[K" if self._on_terminal else ""
        say(f"{start}{self.title}: {detail} ({time.monotonic() - self.began:.0f} s)")
