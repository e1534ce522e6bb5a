"""One short line per stage, rewritten in place on a terminal. Standard library only."""

import shutil
import sys
import time
from contextlib import suppress


def say(line: str) -> None:
    with suppress(OSError):  # a reader that went away must not take the stack down
        print(f"{line}\n", end="", flush=True)  # in one piece: threads say something, too


class ProgressLine:
    """A line that counts up: on a terminal always the newest, in a log one now and then."""

    def __init__(self, title: str, seconds_between_lines: float = 10.0) -> None:
        self.title = title
        self._seconds_between_lines = seconds_between_lines
        self.began = time.monotonic()
        self._shown = float("-inf")
        self._on_terminal = sys.stdout.isatty()
        self._clear = "\r\033[K" if self._on_terminal else ""

    def show(self, detail: str) -> None:
        now = time.monotonic()
        if self._on_terminal:
            room = shutil.get_terminal_size().columns - 1  # a line that wraps is not rewritten
            print(f"{self._clear}{f'{self.title}: {detail}'[:room]}", end="", flush=True)
        elif now - self._shown >= self._seconds_between_lines:
            self._shown = now
            say(f"{self.title}: {detail}")

    def note(self, line: str) -> None:
        """A line that stays, above the one that counts."""
        say(f"{self._clear}{line}")

    def done(self, detail: str) -> None:
        say(f"{self._clear}{self.title}: {detail} ({time.monotonic() - self.began:.0f} s)")
