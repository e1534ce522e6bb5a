"""`./headrace up` as a user starts it: a process on a terminal of its own."""

import os
import pty
import select
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from local_stack.machine.paths import CHECKOUT
from local_stack.machine.ports import free_port, is_free
from local_stack.run.stack_file import read_status

READY_WITHIN_S = 400.0  # several times what it takes on two cores with much else to do
ORPHAN_ENDS_WITHIN_S = 30.0
NOWHERE = "http://127.0.0.1:9"


class Launcher:
    """One state folder, and the launcher that runs on it now."""

    def __init__(self, state_dir: Path, environment: dict[str, str] | None = None) -> None:
        self.state_dir = state_dir
        self.more = environment or {}  # counts from the next start on
        self.arguments: list[str] = []  # of `up`
        self.starts_s: list[float] = []
        # whatever is started in any way inherits it
        self._mark = f"HEADRACE_TESTED_AS={uuid.uuid4()}"
        self._gateway_port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._terminal = -1
        self._reader: threading.Thread | None = None
        self._hung_up = threading.Event()
        self._said = bytearray()

    @property
    def gateway_url(self) -> str:
        return f"http://127.0.0.1:{self._gateway_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def said(self) -> str:
        return self._said.decode(errors="replace")

    def status(self) -> dict[str, Any]:
        return read_status(self.state_dir)

    def service_pid(self, name: str) -> int | None:
        return self.status()["services"].get(name, {}).get("pid")

    def start(self) -> float:
        """Seconds until all was ready."""
        began_s = time.monotonic()
        self.begin()
        assert self._process is not None
        while "Headrace is ready in" not in self.said:
            assert self._process.poll() is None, self.said
            assert time.monotonic() - began_s < READY_WITHIN_S, self.said
            time.sleep(0.1)
        self.starts_s.append(time.monotonic() - began_s)
        return self.starts_s[-1]

    def begin(self) -> None:
        """Without any network, once it has been started."""
        assert self._process is None or self._process.poll() is not None, self.said
        self._terminal, theirs = pty.openpty()
        self._said.clear()
        self._process = subprocess.Popen(
            # which the shell that runs the tests in its background, or nohup, would have ignored
            [
                "setsid",
                "--ctty",
                "env",
                "--default-signal=HUP,INT",
                str(CHECKOUT / "headrace"),
                "up",
                *self.arguments,
            ],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=self._environment(),
        )
        os.close(theirs)
        self._hung_up.clear()
        self._reader = threading.Thread(target=self._read, args=(self._terminal,), daemon=True)
        self._reader.start()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self._wait()

    def press_ctrl_c(self, times: int = 1) -> None:
        """The terminal makes it a SIGINT to everyone in its foreground."""
        assert self._process is not None
        for _ in range(times):
            assert self._process.poll() is None, self.said
            os.write(self._terminal, b"\x03")
            time.sleep(0.3)
        self._wait()

    def close_terminal(self) -> None:
        self._hang_up()
        self._wait()

    def _wait(self) -> None:
        assert self._process is not None
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.end()  # what comes after it starts another one
            raise AssertionError(f"it has not ended: {self.said}") from None
        finally:
            self._hang_up()

    def _hang_up(self) -> None:
        assert self._reader is not None
        self._hung_up.set()
        self._reader.join()

    def end(self) -> None:
        """Leaves nothing behind, whatever a test has found."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(60)
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def processes(self) -> dict[int, str]:
        """Everything that lives of what any start on this folder has started."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has just ended
                # PostgreSQL's own children write over their environment
                inside = (folder / "cwd").readlink().is_relative_to(self.state_dir)
                if inside or self._mark.encode() in (folder / "environ").read_bytes():
                    command = (folder / "cmdline").read_bytes()
                    found[int(folder.name)] = command.replace(b"\0", b" ").decode(errors="replace")
        return found

    def orphans(self) -> dict[int, str]:
        """Those that do not stem from the launcher that runs now."""
        found = self.processes()
        parents = parents_of_all()  # looked at later: who has come since is not asked about
        return {
            pid: command
            for pid, command in found.items()
            if pid in parents and self.pid not in (pid, *ancestors(pid, parents))
        }

    def assert_no_orphan(self) -> None:
        deadline_s = time.monotonic() + ORPHAN_ENDS_WITHIN_S
        while orphans := self.orphans():
            assert time.monotonic() < deadline_s, orphans
            time.sleep(0.2)

    def assert_nothing_is_left(self) -> None:
        """Of a launcher that has ended in order."""
        assert not self.processes()
        ports = self.status().get("ports", {})
        assert [name for name, port in ports.items() if not is_free(port)] == []

    def is_ready(self) -> bool:
        return bool(self.status()["ready"])

    def _environment(self) -> dict[str, str]:
        mark, _, value = self._mark.partition("=")
        kept = {k: v for k, v in os.environ.items() if k not in _SERVERS_OF_THE_USER}
        environment = {**kept, **self.more, mark: value, "HEADRACE_STATE_DIR": str(self.state_dir)}
        environment["HEADRACE_GATEWAY_PORT"] = str(self._gateway_port)
        if self.starts_s:
            for name in ("http_proxy", "https_proxy", "all_proxy"):
                environment |= {name: NOWHERE, name.upper(): NOWHERE}
        return environment

    def _read(self, terminal: int) -> None:
        # the reader alone may close it: closed by another, it stays open as long as a read waits
        try:
            while not self._hung_up.is_set():
                if select.select([terminal], [], [], 0.1)[0]:
                    self._said.extend(os.read(terminal, 4096))
        except OSError:  # nobody has it open any more
            pass
        finally:
            os.close(terminal)


_SERVERS_OF_THE_USER = ("HEADRACE_KAFKA_BOOTSTRAP", "HEADRACE_POSTGRES_URL")


def parents_of_all() -> dict[int, int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(") ")[2].split()[1])
    return parents


def ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while pid := parents.get(pid, 0):
        yield pid


def descendants(pid: int) -> dict[int, str]:
    """Their command lines."""
    parents = parents_of_all()
    found = {}
    for other in parents:
        if pid in ancestors(other, parents):
            with suppress(OSError):
                found[other] = Path(f"/proc/{other}/cmdline").read_text(errors="replace")
    return found


def state_of(gateway_url: str, device: str) -> dict[str, Any] | None:
    try:
        answer = httpx.get(f"{gateway_url}/state/{device}", timeout=10)
    except httpx.TransportError:
        return None
    return answer.json()["state"] if answer.status_code == 200 else None
