"""Keeps the workers of a node running, and what there is once a node: the view's writer.

Each worker listens on a socket of its own on the same port (SO_REUSEPORT): the kernel deals
connections out evenly, and none waits for a worker that is gone. Of 120 connections to three
workers, one socket for all gave one of them 60 to 98; this way each got 29 to 49.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import random
import signal
import sys
import time

from gateway.monitor.metrics import GAUGES
from gateway.node.node import WORKER_RESTARTS, Node, SharedMemory
from gateway.server.server import CannotListenError
from gateway.server.worker import CANNOT_LISTEN, WRONG_SETTING, listeners
from gateway.state_view.process import ViewProcess
from shared.settings import GatewaySettings

log = logging.getLogger(__name__)

_RESTART_PAUSE_S = 0.1
_RESTART_PAUSE_MAX_S = 10.0
_STEADY_S = 10.0
_PARTING_S = 10.0  # beyond what open requests may take: for Kafka's last acknowledgements


def keep_workers(settings: GatewaySettings) -> int:
    """The exit code; what is wrong is said on stderr."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        with contextlib.ExitStack() as probed:
            # nobody else may listen where several sockets are about to be allowed
            for one in itertools.chain(*listeners(settings, shared=False)):
                probed.enter_context(one)
        with contextlib.ExitStack() as reserved:
            for one in itertools.chain(*listeners(settings, shared=True)):
                reserved.enter_context(one)
            return asyncio.run(Workers(settings).run())
    except CannotListenError as error:
        print(error, file=sys.stderr)
        return CANNOT_LISTEN


class Workers:
    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        count = settings.gateway_workers
        self._shared = SharedMemory.for_workers(count)
        self._node = Node(count, count, self._shared)
        # the hash of a device's id has to be the same in each of them
        self._environment = {**os.environ, "PYTHONHASHSEED": str(random.randrange(1, 2**32))}
        self._live: dict[int, asyncio.subprocess.Process] = {}
        self._exit_code = 0
        self._ending = asyncio.Event()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._tell_to_end)
        view = ViewProcess(self._settings)
        await view.start()
        keepers = [asyncio.create_task(self._keep(worker)) for worker in range(self._node.workers)]
        await self._ending.wait()
        await self._wait_for_their_end(keepers)
        await view.stop()
        return self._exit_code

    async def _keep(self, worker: int) -> None:
        pause_s = _RESTART_PAUSE_S
        while not self._ending.is_set():
            begun_s = time.monotonic()
            code = await self._run_once(worker)
            if self._ending.is_set():
                return
            if code == WRONG_SETTING:  # it has said which, and it would again
                self._exit_code = code
                self._tell_to_end()
                return
            if time.monotonic() - begun_s > _STEADY_S:
                pause_s = _RESTART_PAUSE_S
            log.warning("worker %d ended with %s; again in %g s", worker, code, pause_s)
            self._node.row.values[self._node.row.place((WORKER_RESTARTS,))] += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), pause_s)
            pause_s = min(4 * pause_s, _RESTART_PAUSE_MAX_S)

    async def _run_once(self, worker: int) -> int:
        process = self._live[worker] = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "gateway.server.worker",
            str(os.getpid()),
            str(worker),
            *map(str, self._shared),
            stdin=asyncio.subprocess.DEVNULL,
            env=self._environment,
            pass_fds=self._shared,
            process_group=0,  # a terminal's Ctrl-C is for the parent, which tells the workers
        )
        if self._ending.is_set():
            process.terminate()
        try:
            return await process.wait()
        finally:
            del self._live[worker]
            row = self._node.numbers.row(worker)
            for gauge in GAUGES:  # it holds nothing any more
                row.set((gauge,), 0.0)

    def _tell_to_end(self) -> None:
        """Each time: a worker that is told twice cuts its good-byes short."""
        self._ending.set()
        for process in self._live.values():
            process.send_signal(signal.SIGTERM)

    async def _wait_for_their_end(self, keepers: list[asyncio.Task[None]]) -> None:
        bound_s = self._settings.shutdown_drain_s + self._settings.shutdown_grace_s + _PARTING_S
        _, late = await asyncio.wait(keepers, timeout=bound_s)
        for process in self._live.values():
            log.error("a worker has not ended within %g s: killing it", bound_s)
            process.kill()
        if late:
            await asyncio.wait(late)
