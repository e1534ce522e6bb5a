"""Keeps the process that writes the view running."""

import asyncio
import contextlib
import logging
import os
import sys
import time

from shared.settings import GatewaySettings

log = logging.getLogger(__name__)

_RESTART_PAUSE_S = 1.0
_RESTART_PAUSE_MAX_S = 10.0
_STEADY_S = 10.0
_STOP_DEADLINE_S = 2.0


class ViewProcess:
    def __init__(self, settings: GatewaySettings) -> None:
        self._environment = {
            **os.environ,
            "HEADRACE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
            "HEADRACE_STATE_DIR": str(settings.state_dir),
            "HEADRACE_FLOW": settings.flow,
            **_of_peers(settings),
        }
        self.pid: int | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._watcher = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait((self._watcher,))

    async def _watch(self) -> None:
        pause_s = _RESTART_PAUSE_S
        while True:
            begun_s = time.monotonic()
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "gateway.state_view.writer",
                str(os.getpid()),
                stdin=asyncio.subprocess.DEVNULL,
                env=self._environment,
            )
            self.pid = process.pid
            try:
                code = await process.wait()
            finally:
                self.pid = None
                await _end(process)
            log.warning("the view's writer has ended with %s; starting it again", code)
            steady = time.monotonic() - begun_s > _STEADY_S
            pause_s = _RESTART_PAUSE_S if steady else min(2 * pause_s, _RESTART_PAUSE_MAX_S)
            await asyncio.sleep(pause_s)


async def _end(process: asyncio.subprocess.Process) -> None:
    # what it has written is consistent at any moment, so it needs no farewell
    with contextlib.suppress(ProcessLookupError):
        if process.returncode is None:
            process.kill()
            async with asyncio.timeout(_STOP_DEADLINE_S):
                await process.wait()


def _of_peers(settings: GatewaySettings) -> dict[str, str]:
    if not settings.state_copies:
        return {"HEADRACE_STATE_COPIES": "0"}
    told = {
        "HEADRACE_STATE_COPIES": str(settings.state_copies),
        "HEADRACE_PEER_URL": settings.own_peer_url,
        "HEADRACE_PEER_TOKEN": settings.peer_secret,
    }
    return told | ({"HEADRACE_PEER_CA_FILE": str(file)} if (file := settings.peer_ca_file) else {})
