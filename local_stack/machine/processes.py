"""Keeps child processes running, held or stopped, and never leaves one behind.

The desired state is a file: while `<state>/held/<name>` exists, that child stays down.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from local_stack.machine.log_files import log_path, open_log, telling_line
from local_stack.terminal.errors import StackError

LOOK_EVERY_S = 0.2
BACKOFF_FIRST_S = 0.5
BACKOFF_LONGEST_S = 15.0
WELL_AFTER_S = 60.0


@dataclass(frozen=True)
class Service:
    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    stage: int  # stopped from the highest to the lowest
    is_up: Callable[[], bool] = lambda: True
    wrapper: Sequence[str] = ()
    stop_signal: signal.Signals = signal.SIGTERM
    crash_signal: signal.Signals = signal.SIGKILL
    orphan_signal: signal.Signals = signal.SIGKILL
    grace_s: float = 8.0
    before_start: Callable[[], None] = lambda: None


def tied_to_this_process(
    command: Sequence[str],
    wrapper: Sequence[str] = (),
    orphan_signal: signal.Signals = signal.SIGKILL,
) -> list[str]:
    """The kernel signals the child when the thread that started it ends, even by SIGKILL.

    The shell closes the gap: if this process died before setpriv ran, nothing is started.
    """
    tie = ["setpriv", "--pdeathsig", orphan_signal.name.removeprefix("SIG")]
    check = ["sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"', str(os.getpid())]
    return [*wrapper, *tie, *check, *command]


class Child:
    """One service and its process. Only the supervisor's thread may call `tick` and `stop`."""

    def __init__(self, service: Service, state_dir: Path, report: Callable[[str], None]) -> None:
        self.service = service
        self.state = "stopped"  # stopped, starting, running, held or restarting
        self.deaths = 0
        self.last_words = ""
        self.process: subprocess.Popen[bytes] | None = None
        self._log = log_path(state_dir, service.name)
        self._log_offset = 0
        self._held = state_dir / "held" / service.name
        self._report = report
        self._started_at = 0.0
        self._start_at = 0.0
        self._backoff = BACKOFF_FIRST_S

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    def tick(self, now: float) -> None:
        held = self._held.exists()
        if self.process:
            if self.process.poll() is not None:
                self._bury(now)
            elif held:
                self.crash()
            else:
                self._look(now)
        if held and not self.process:
            self.state, self._start_at = "held", now
        elif not self.process and now >= self._start_at:
            try:
                self._start(now)
            except (OSError, StackError) as error:
                self._try_later(now, str(error))

    def _start(self, now: float) -> None:
        service = self.service
        service.before_start()
        with open_log(self._log) as log:
            self._log_offset = log.tell()
            self.process = subprocess.Popen(
                tied_to_this_process(service.command, service.wrapper, service.orphan_signal),
                env=dict(service.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,  # Ctrl-C reaches only the launcher, which stops all in order
            )
        self.state, self._started_at = "starting", now

    def _look(self, now: float) -> None:
        if self.state == "starting" and self.service.is_up():
            self.state = "running"
        if now - self._started_at > WELL_AFTER_S:
            self._backoff = BACKOFF_FIRST_S

    def _bury(self, now: float) -> None:
        assert self.process
        code = self.process.returncode
        self._end_group()
        # Who was killed from outside had no time for last words.
        killed = -code in (signal.SIGKILL, signal.SIGTERM)
        last_words = "" if killed else f": {telling_line(self._log, self._log_offset)}"
        self._try_later(now, _how(code) + last_words)

    def _try_later(self, now: float, why: str) -> None:
        self.deaths += 1
        self.last_words = why
        self.state, self._start_at = "restarting", now + self._backoff
        again = f"starting it again in {self._backoff:.1f} s"
        self._report(f"{self.service.name} ended by itself ({why}); {again}")
        self._backoff = min(self._backoff * 2, BACKOFF_LONGEST_S)

    def ask_to_stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(self.service.stop_signal)

    def crash(self) -> None:
        """The abrupt end, as a failure of the machine would be."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(self.service.crash_signal)
            self._wait_or_kill(time.monotonic() + self.service.grace_s)
        self._end_group()

    def wait_until_stopped(self, deadline: float) -> None:
        self._wait_or_kill(deadline)
        self._end_group()
        self.state = "stopped"

    def _wait_or_kill(self, deadline: float) -> None:
        if self.process:
            try:
                self.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _end_group(self) -> None:
        """Whatever the leader started and left, a JVM for example."""
        if self.process:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process = None


class Supervisor:
    """A thread that starts all children and lives as long as they do, since they die with it."""

    def __init__(self, state_dir: Path, report: Callable[[str], None]) -> None:
        self.children: dict[str, Child] = {}
        self.on_change: Callable[[], None] = lambda: None
        self._state_dir = state_dir
        self._report = report
        self._published: object = None
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def add(self, service: Service) -> None:
        self.children = {
            **self.children,
            service.name: Child(service, self._state_dir, self._report),
        }
        if not self._thread.is_alive():
            self._thread.start()
        self._wake.set()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def kill_all(self) -> None:
        """From a signal handler, while the thread may be waiting for slow children."""
        for child in self.children.values():
            if child.pid:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, child.service.crash_signal)

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._look_at_all()
            except Exception as error:  # a full disk, say: the children die with this thread
                self._report(f"supervision is hindered: {error}")
                self._wake.wait(BACKOFF_LONGEST_S)
            self._wake.wait(LOOK_EVERY_S)
            self._wake.clear()
        self._stop_in_order()

    def _look_at_all(self) -> None:
        for child in self.children.values():
            child.tick(time.monotonic())
        seen = [(child.state, child.pid) for child in self.children.values()]
        if seen != self._published:
            self.on_change()
            self._published = seen

    def _stop_in_order(self) -> None:
        for stage in sorted({c.service.stage for c in self.children.values()}, reverse=True):
            group = [c for c in self.children.values() if c.service.stage == stage]
            for child in group:
                child.ask_to_stop()
            began = time.monotonic()
            for child in group:
                child.wait_until_stopped(began + child.service.grace_s)


def run_to_the_end(name: str, command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
    """A step that must succeed, its words in its own log."""
    with open_log(log) as file:
        offset = file.tell()
        code = subprocess.run(
            tied_to_this_process(command),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            timeout=180,
            check=False,
        ).returncode
    if code != 0:
        raise StackError(
            f"{name} failed ({_how(code)}): {telling_line(log, offset)}", f"read {log}"
        )


def python(*arguments: str) -> list[str]:
    return [sys.executable, "-P", *arguments]


def _how(code: int) -> str:
    return f"exit {code}" if code >= 0 else signal.Signals(-code).name
