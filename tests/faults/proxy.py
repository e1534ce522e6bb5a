"""A TCP proxy that treats its connections badly."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Literal

Way = Literal["pass", "slow", "stall", "trickle"]

_CHUNK_BYTES = 64 * 1024
_SLOW_S = 0.2
_TRICKLE_BYTES = 700


class Proxy:
    """`way` holds for all connections, old and new."""

    def __init__(self, port: int, target_port: Callable[[], int]) -> None:
        self.port = port
        self.way: Way = "pass"
        self.cut = 0
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def reset(self) -> None:
        """Every connection ends with RST: what is under way is lost."""
        for writer in list(self._open):
            self.cut += 1
            writer.transport.abort()

    def close_half(self) -> None:
        """One direction ends, the other goes on."""
        for writer in list(self._open):
            self.cut += 1
            with contextlib.suppress(OSError):
                writer.write_eof()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner = await asyncio.open_connection("127.0.0.1", self._target_port())
        except OSError:
            writer.transport.abort()
            return
        # only the way to the broker: half-closing it leaves answers that nobody asks for
        self._open.add(inner[1])
        pumps = [
            asyncio.create_task(self._pump(reader, inner[1])),
            asyncio.create_task(self._pump(inner[0], writer)),
        ]
        self._tasks.update(pumps)
        await asyncio.wait(pumps)
        self._tasks.difference_update(pumps)
        self._open.discard(inner[1])
        for one in (writer, inner[1]):
            one.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, RuntimeError):  # half-closed in the middle of it
            while raw := await reader.read(_CHUNK_BYTES):
                while self.way == "stall":
                    await asyncio.sleep(0.05)
                if self.way == "slow":
                    await asyncio.sleep(_SLOW_S)
                step = _TRICKLE_BYTES if self.way == "trickle" else len(raw)
                for at in range(0, len(raw), step):
                    writer.write(raw[at : at + step])
                    await writer.drain()
                    if self.way == "trickle":
                        await asyncio.sleep(0.002)
        if not writer.transport.is_closing():
            with contextlib.suppress(OSError):
                writer.write_eof()
