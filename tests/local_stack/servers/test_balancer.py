"""The balancer between clients and small servers that say which one they are."""

import asyncio
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from local_stack.servers.balancer import Balancer

Serve = Callable[[StreamReader, StreamWriter], Awaitable[None]]
_WITHIN_S = 10.0
_LARGE = bytes(range(256)) * 20_000


def echo(name: bytes) -> Serve:
    """Its name, then what it got once it has all of it."""

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(name)
        writer.write(await reader.read())
        await writer.drain()
        writer.close()

    return serve


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.sleep(0.01)  # connections see that they are over


async def refused() -> int:
    """A port on which nobody listens."""
    async with serving(echo(b"")) as port:
        return port


async def ask(port: int, what: bytes = b"") -> bytes:
    async with asyncio.timeout(_WITHIN_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(what)
            writer.write_eof()
            return await reader.read()
        finally:
            writer.transport.abort()


async def answers(names: Sequence[bytes | None], times: int, what: bytes = b"") -> list[bytes]:
    """None: one that refuses."""
    async with AsyncExitStack() as servers:
        ports = [
            await refused() if name is None else await servers.enter_async_context(
                serving(echo(name))
            )
            for name in names
        ]  # fmt: skip
        port = await servers.enter_async_context(serving(Balancer(ports).serve))
        return await asyncio.gather(*[ask(port, what) for _ in range(times)])


def test_the_gateways_take_turns() -> None:
    assert sorted(asyncio.run(answers([b"a", b"b", b"c"], 6))) == sorted([b"a", b"b", b"c"] * 2)


def test_those_that_refuse_are_passed_over_however_many_come_at_once() -> None:
    said = asyncio.run(answers([b"a", None, None, b"c"], 40))
    assert len(said) == 40
    assert set(said) == {b"a", b"c"}


def test_what_is_large_comes_whole_both_ways_after_the_client_has_said_all() -> None:
    assert asyncio.run(answers([b"a"], 2, _LARGE)) == [b"a" + _LARGE] * 2


def test_where_nobody_takes_it_the_client_is_cut_off() -> None:
    with pytest.raises(ConnectionError):
        asyncio.run(answers([None, None], 1))


def test_a_gateway_that_is_back_gets_its_turns_again() -> None:
    async def run() -> list[bytes]:
        async with serving(echo(b"a")) as first:
            second = await refused()
            async with serving(Balancer([first, second]).serve) as port:
                said = [await ask(port), await ask(port)]
                back = await asyncio.start_server(echo(b"b"), "127.0.0.1", second)
                said += [await ask(port), await ask(port)]
                back.close()
                await asyncio.sleep(0.01)
                return said

    said = asyncio.run(run())
    assert said[:2] == [b"a", b"a"]
    assert set(said[2:]) == {b"a", b"b"}


def test_the_end_of_a_killed_gateway_reaches_its_client_at_once() -> None:
    """Whose socket the kernel closes, with what it had not read yet."""

    async def dies(reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(b"some")
        await writer.drain()
        await reader.read(1)
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    async def run() -> bytes:
        async with serving(dies) as gateway, serving(Balancer([gateway]).serve) as port:
            async with asyncio.timeout(_WITHIN_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    got = await reader.readexactly(4)
                    writer.write(b"more")
                    await reader.read()  # without an end it would never return
                    return got
                finally:
                    writer.transport.abort()

    with pytest.raises(ConnectionError):
        asyncio.run(run())
