import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.run.last_run import WAIT_S, wait_for_the_last_run
from local_stack.run.stack_file import write_status


@pytest.fixture
def server() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        ["sleep", "1000"], env={**os.environ, "DATA": "/of/this/state"}
    ) as server:
        yield server
        server.kill()


def told(folder: Path, pid: int) -> Path:
    postgres, kafka = {"state": "running", "pid": pid}, {"state": "held", "pid": None}
    write_status(folder, {"services": {"postgres": postgres, "kafka": kafka}})
    return folder


@pytest.mark.slow
def test_a_server_of_the_last_run_is_waited_for(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "1000"], env={**os.environ, "DATA": str(tmp_path)}) as server:
        threading.Timer(2.0, server.kill).start()
        wait_for_the_last_run(told(tmp_path, server.pid))
        assert server.wait(0.5) != 0


@pytest.mark.slow
def test_a_stranger_with_the_same_pid_is_not(
    tmp_path: Path, server: subprocess.Popen[bytes]
) -> None:
    began_s = time.monotonic()
    wait_for_the_last_run(told(tmp_path, server.pid))
    assert server.poll() is None
    assert time.monotonic() - began_s < WAIT_S


def test_a_first_run_has_nothing_to_wait_for(tmp_path: Path) -> None:
    wait_for_the_last_run(tmp_path)
