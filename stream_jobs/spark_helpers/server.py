"""Forks the Python processes that Spark's driver starts, out of one that has imported what they
need.

Spark starts several for each query, one after the other: for its source, its plan and its states.
Each would be an interpreter of its own that imports the same again, which takes a second where a
core is busy. Spark's own daemon forks the workers of tasks alone.

A helper ends with whoever has asked for it, and all end with the driver.
"""

import os
import runpy
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from shared.machine.forking import import_before_forks
from shared.machine.parent_process import die_with_parent
from stream_jobs.spark_helpers.request import Request, received

# what the helpers import themselves, and what is in that which Spark hands to them
_NEEDED = (
    *("pyarrow", "pyspark.logger.worker_io", "pyspark.worker", "pyspark.worker_util"),
    *("pyspark.sql.datasource", "pyspark.sql.datasource_internal", "pyspark.sql.worker.utils"),
    *("pyspark.sql.worker.lookup_data_sources", "pyspark.sql.worker.create_data_source"),
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.streaming.stateful_processor_api_client",
    *("pyspark.sql.streaming.stateful_processor_util", "stream_jobs.kafka_io.log_reader"),
    "stream_jobs.kafka_io.cut_reader",
)
_ASKS_WITHIN_S = 5.0


class HelperServer:
    """Its `run` returns in each helper, with what that one is to do, and in the server never."""

    def __init__(self, listener: socket.socket) -> None:
        self._pid = os.getpid()
        self._listener = listener
        self._askers: dict[int, socket.socket] = {}  # by the pid of the helper
        self._selector = selectors.DefaultSelector()

    def run(self) -> Request:
        self._selector.register(self._listener, selectors.EVENT_READ, self._fork)
        self._selector.register(sys.stdin, selectors.EVENT_READ, self._end)
        while True:
            # one at a time: what comes of it may close, and use again, what another event is of
            for key, _ in self._selector.select()[:1]:
                answer: Callable[[], Request | None] = key.data
                if request := answer():
                    return request

    def _fork(self) -> Request | None:
        asker, _ = self._listener.accept()
        try:
            asker.settimeout(_ASKS_WITHIN_S)
            request, streams = received(asker)
        except (OSError, ValueError, EOFError):  # it has gone again
            asker.close()
            return None
        if (pid := os.fork()) == 0:
            self._become(request, streams, asker)
            return request
        for stream in streams:
            os.close(stream)
        self._askers[pid] = asker
        self._selector.register(asker, selectors.EVENT_READ, partial(self._kill, pid))
        ended = os.pidfd_open(pid)
        self._selector.register(ended, selectors.EVENT_READ, partial(self._reap, pid, ended))
        return None

    def _kill(self, pid: int) -> None:
        """Whoever asked for it has gone."""
        self._selector.unregister(self._askers[pid])
        os.kill(pid, signal.SIGKILL)

    def _reap(self, pid: int, ended: int) -> None:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self._selector.unregister(ended)
        os.close(ended)
        asker = self._askers.pop(pid)
        with suppress(KeyError):
            self._selector.unregister(asker)
        with suppress(OSError):
            asker.send(bytes([code if code >= 0 else 128 - code]))
        asker.close()

    def _end(self) -> None:
        """The driver has gone; its helpers die with this process."""
        os._exit(0)

    def _become(self, request: Request, streams: list[int], asker: socket.socket) -> None:
        die_with_parent(self._pid)
        # where it is a daemon that forks others
        os.register_at_fork(after_in_child=partial(die_with_parent, os.getpid()))
        for key in [*self._selector.get_map().values()]:
            close: Callable[[], None] = getattr(key.fileobj, "close", partial(os.close, key.fd))
            if key.fileobj is not sys.stdin:
                close()
        self._selector.close()
        asker.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environb.update(request.environment)
        os.chdir(request.folder)
        sys.argv = [os.fsdecode(word) for word in request.arguments]


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which ends all
    import_before_forks(_NEEDED)
    HelperServer(socket.socket(fileno=int(sys.argv[1]))).run()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
