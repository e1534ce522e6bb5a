"""A real server in a JVM, on this machine, which can be killed and started again.

Its jars come as the broker's do, when the first test asks for them.
"""

import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from local_stack.machine.log_files import tail
from local_stack.machine.ports import free_port
from local_stack.machine.processes import tied_to_this_process
from local_stack.machine.without_root import without_root

_STARTED_WITHIN_S = 120.0
_SHOWN_LINES = 40
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class JavaServer(ABC):
    """It ends with the thread that started it, so that no killed test leaves it behind."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.home = folder / name.lower()
        self._log = folder / f"{name.lower()}.log"
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._command: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def make(self) -> list[str]:
        """Its home, and the command that starts it there."""

    @abstractmethod
    def answers(self) -> bool: ...

    def __enter__(self) -> Self:
        self._command = self.make()
        self.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Returns once it answers; its data and its port are those of the start before."""
        assert self._process is None, f"{self.name} is running"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                tied_to_this_process(self._command, wrapper=without_root()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """At once: it can flush nothing and tell nobody."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
            self._process = None

    def _wait_until_it_answers(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _STARTED_WITHIN_S
        while not self.answers():
            if (code := self._process.poll()) is not None:
                raise AssertionError(f"{self.name} ended with {code}:\n{self._last_lines()}")
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{self.name} does not answer within {_STARTED_WITHIN_S:.0f} s:\n"
                    f"{self._last_lines()}"
                )
            time.sleep(0.1)

    def _last_lines(self) -> str:
        return "\n".join(tail(self._log)[-_SHOWN_LINES:])
