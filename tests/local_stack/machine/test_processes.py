"""Supervision, with `sleep` in the place of the heavy parts."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from local_stack.machine.paths import CHECKOUT
from local_stack.machine.processes import Service, Supervisor
from local_stack.terminal.errors import StackError
from tests import kafka_log
from tests.processes import is_alive

pytestmark = pytest.mark.slow


eventually = partial(kafka_log.eventually, within_s=60, every_s=0.05)


def sleeper(name: str = "sleeper", command: str = "sleep 1000") -> Service:
    return Service(name, ["sh", "-c", command], dict(os.environ), stage=0)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def supervisor(tmp_path: Path, said: list[str]) -> Iterator[Supervisor]:
    supervisor = Supervisor(tmp_path, said.append)
    yield supervisor
    supervisor.stop()


def started(supervisor: Supervisor, service: Service) -> int:
    supervisor.add(service)
    child = supervisor.children[service.name]
    eventually(lambda: child.state == "running")
    assert child.pid is not None
    return child.pid


def test_a_killed_child_comes_back_and_it_is_said(supervisor: Supervisor, said: list[str]) -> None:
    first = started(supervisor, sleeper())
    os.kill(first, signal.SIGKILL)
    child = supervisor.children["sleeper"]
    eventually(lambda: child.state == "running" and child.pid != first)
    assert said == ["sleeper ended by itself (SIGKILL); starting it again in 0.5 s"]


def test_a_child_that_never_stays_up_is_tried_ever_more_slowly(
    supervisor: Supervisor, said: list[str]
) -> None:
    supervisor.add(sleeper(command="echo fatal: no luck; exit 3"))
    eventually(lambda: len(said) == 2)
    assert "(exit 3: fatal: no luck); starting it again in 0.5 s" in said[0]
    assert said[1].endswith("in 1.0 s")


def test_a_held_child_stays_down_until_released(
    supervisor: Supervisor, tmp_path: Path, said: list[str]
) -> None:
    pid = started(supervisor, sleeper())
    held = tmp_path / "held" / "sleeper"
    held.parent.mkdir()
    held.touch()
    child = supervisor.children["sleeper"]
    eventually(lambda: child.state == "held")
    assert not is_alive(pid)
    held.unlink()
    eventually(lambda: child.state == "running")
    assert said == []


def test_what_a_child_started_goes_with_it(supervisor: Supervisor, tmp_path: Path) -> None:
    pid_file = tmp_path / "grandchild.pid"
    started(supervisor, sleeper(command=f"sleep 1000 & echo $! > {pid_file}; wait"))
    eventually(lambda: pid_file.exists() and pid_file.read_text().strip() != "")
    supervisor.stop()
    eventually(lambda: not is_alive(int(pid_file.read_text())))


def test_stopping_goes_from_the_last_stage_to_the_first(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    order = tmp_path / "order"
    for name, stage in (("broker", 0), ("jobs", 1)):
        trap = f"trap 'echo {name} >> {order}; exit 0' TERM; touch {tmp_path / name}"
        script = f"{trap}; while :; do sleep 0.1; done"
        started(supervisor, Service(name, ["sh", "-c", script], dict(os.environ), stage=stage))
        eventually((tmp_path / name).exists)  # the shell has set its trap
    supervisor.stop()
    assert order.read_text().split() == ["jobs", "broker"]


LAUNCHER = """
import os, sys, time
from pathlib import Path
from local_stack.machine.processes import Service, Supervisor
supervisor = Supervisor(Path(sys.argv[1]), print)
supervisor.add(Service("sleeper", ["sleep", "1000"], dict(os.environ), stage=0))
while not supervisor.children["sleeper"].pid:
    time.sleep(0.05)
time.sleep(0.5)
print(supervisor.children["sleeper"].pid, flush=True)
time.sleep(1000)
"""


def test_no_orphan_after_a_hard_kill_of_the_launcher(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LAUNCHER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT) as launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        assert is_alive(pid)
        launcher.kill()
    eventually(lambda: not is_alive(pid))


def test_a_child_that_cannot_even_start_is_named_and_hinders_nobody(
    supervisor: Supervisor, said: list[str]
) -> None:
    def refuse() -> None:
        raise StackError("its folder is in use")

    command = ["sleep", "1000"]
    supervisor.add(Service("refused", command, dict(os.environ), stage=0, before_start=refuse))
    started(supervisor, sleeper())
    eventually(lambda: supervisor.children["refused"].deaths >= 2)
    assert "refused ended by itself (its folder is in use)" in said[0]
