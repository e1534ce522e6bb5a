"""`python -m local_stack.servers.balancer HOST PORT PORT…`: the first port's connections, each to
one of the gateways on the others. It knows nothing of HTTP or TLS.

They take turns. One that refuses is passed over, and looked at again for the next connection: so
nobody has to be told that one was killed, or is back.
"""

import asyncio
import contextlib
import resource
import signal
import socket
import struct
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import Sequence

_CHUNK_BYTES = 64 * 1024
_CONNECT_S = 1.0
_HEARS_OUT_S = 1.0
_BACKLOG = 1024
_HERE = "127.0.0.1"
_NOW = struct.pack("ii", 1, 0)

Stream = tuple[StreamReader, StreamWriter]


class Balancer:
    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._turn = 0

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """One connection, to its end."""
        with contextlib.suppress(asyncio.CancelledError):  # the balancer ends, and it with it
            gateway = await self._connect()
            if gateway is None:
                _cut(writer)  # as if nobody listened
            else:
                await _join((reader, writer), gateway)

    async def _connect(self) -> Stream | None:
        first = self._turn % len(self._ports)
        self._turn += 1
        for port in (*self._ports[first:], *self._ports[:first]):
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_S):
                    return await asyncio.open_connection(_HERE, port)
        return None


async def _join(client: Stream, gateway: Stream) -> None:
    up = asyncio.create_task(_pump(client[0], gateway[1]))
    down = asyncio.create_task(_pump(gateway[0], client[1]))
    try:
        await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
        if not down.done() and up.exception() is None:
            await asyncio.wait((down,))  # the client has said all, and waits for its answer
    finally:
        is_whole = down.done() and not down.cancelled() and down.exception() is None
        up.cancel()
        down.cancel()
        await asyncio.gather(up, down, return_exceptions=True)
        _cut(gateway[1])
        if is_whole:
            await _hear_out(client)
        else:
            _cut(client[1])


async def _hear_out(client: Stream) -> None:
    """What the gateway said last may still be on its way: to be closed with bytes unread would cut
    it off, of a body for instance that was refused before it had come."""
    reader, writer = client
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_HEARS_OUT_S):
            while await reader.read(_CHUNK_BYTES):
                pass
    writer.close()


async def _pump(reader: StreamReader, writer: StreamWriter) -> None:
    """OSError where the connection was cut: then the other side is, too."""
    while raw := await reader.read(_CHUNK_BYTES):
        writer.write(raw)
        await writer.drain()
    writer.write_eof()


def _cut(writer: StreamWriter) -> None:
    """With RST, which nobody takes for the end of what was being said."""
    with contextlib.suppress(OSError):  # the other side has cut it already
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NOW)
    writer.transport.abort()


async def balance(host: str, port: int, ports: Sequence[int]) -> None:
    server = await asyncio.start_server(Balancer(ports).serve, host, port, backlog=_BACKLOG)
    ends = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ends.set)
    await ends.wait()
    server.close()


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # two for each connection
    host, port, *ports = sys.argv[1:]
    asyncio.run(balance(host, int(port), [*map(int, ports)]))


if __name__ == "__main__":
    main()
