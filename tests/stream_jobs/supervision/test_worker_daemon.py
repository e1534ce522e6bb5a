"""Spark's daemon of Python workers, as Spark starts it."""

import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from local_stack.machine.processes import tied_to_this_process
from tests.kafka_log import eventually
from tests.processes import is_alive

pytestmark = pytest.mark.slow
SECRET = "secret"


def test_a_worker_ends_with_its_daemon_however_that_one_ends() -> None:
    """It waits for what nobody sends: with nothing else would it notice."""
    daemon = subprocess.Popen(
        tied_to_this_process([sys.executable, "-m", "stream_jobs.supervision.worker_daemon"]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHON_WORKER_FACTORY_SECRET": SECRET, "SPARK_REUSE_WORKER": "1"},
    )
    assert daemon.stdout is not None and daemon.stdin is not None
    try:
        (port,) = struct.unpack("!i", daemon.stdout.read(4))
        with socket.create_connection(("127.0.0.1", port), timeout=60) as spark:
            (worker,) = struct.unpack("!i", spark.recv(4, socket.MSG_WAITALL))
            assert is_alive(worker)
            # whoever is forked beside a thread may wait for ever for what that one held
            assert len(list(Path(f"/proc/{daemon.pid}/task").iterdir())) == 1
            daemon.kill()
            daemon.wait(10)
            eventually(lambda: not is_alive(worker), 10)
    finally:
        if daemon.poll() is None:
            os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait(10)
        daemon.stdin.close()
        daemon.stdout.close()
