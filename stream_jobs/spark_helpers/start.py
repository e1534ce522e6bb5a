"""The driver's side: starts the server of helpers before Spark, and ends it with the driver."""

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from stream_jobs.spark_helpers.ask import VARIABLE

_NAME = "helpers"
_ENDS_WITHIN_S = 5.0
_servers: list[subprocess.Popen[bytes]] = []


def start(sockets: Path) -> None:
    """`sockets`: a folder with a short name. What it imports it imports while Spark's JVM starts;
    who asks meanwhile waits."""
    end()
    path = sockets / _NAME
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(128)
        _servers.append(
            subprocess.Popen(
                [sys.executable, "-u", "-m", "stream_jobs.spark_helpers.server",
                 str(listener.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
            )
        )  # fmt: skip
    os.environ[VARIABLE] = str(path)


def end() -> None:
    """Waits for it: nothing may be left of a driver that has ended."""
    os.environ.pop(VARIABLE, None)
    while _servers:
        server = _servers.pop()
        assert server.stdin is not None
        server.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            server.wait(_ENDS_WITHIN_S)
