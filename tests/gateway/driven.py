"""A client's connection without a socket: what comes in one read and what in the next is the test's
choice, to the byte."""

import asyncio
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from uvicorn.server import ServerState

from gateway.server.connection import HttpConnection
from tests.gateway.support import Gateway

_TURNS = 6  # of the loop; then what a read has caused is done
_READ_BYTES_MAX = 256 * 1024  # as the loop has it
_STATUS = re.compile(rb"(?:\A|\})HTTP/1\.1 ([2-5]\d\d) ")


class Outcome(NamedTuple):
    statuses: list[int]
    written: list[tuple[bytes, bytes]]  # of each record, its key and value


class _Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.answers = bytearray()
        self.is_ended = False

    def write(self, data: Any) -> None:
        self.answers += data

    def is_closing(self) -> bool:
        return self.is_ended

    def close(self) -> None:
        self.is_ended = True

    abort = write_eof = close

    def can_write_eof(self) -> bool:
        return True

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


class Driven:
    """The connections of one gateway, which remember the heads that any of them has read."""

    def __init__(self, gateway: Gateway) -> None:
        self._log = gateway.log
        self._config = gateway.config(gateway.settings)
        self._config.load()
        self._state = ServerState()

    async def outcome(self, reads: Iterable[bytes]) -> Outcome:
        """Of a connection on which these came, then an end."""
        self._log.records.clear()
        protocol: HttpConnection = self._config.http_protocol_class(  # type: ignore[assignment]
            config=self._config, server_state=self._state, app_state={}
        )
        wire = _Wire()
        protocol.connection_made(wire)
        for read in _as_read(reads):
            if wire.is_ended:
                break
            protocol.data_received(read)
            await _settled()
        if not wire.is_ended:
            protocol.eof_received()
            await _settled()
        protocol.connection_lost(None)
        written = [(record.key, record.value) for record in self._log.records]
        return Outcome([int(status) for status in _STATUS.findall(bytes(wire.answers))], written)


def _as_read(reads: Iterable[bytes]) -> Iterator[bytes]:
    for read in reads:
        for at in range(0, len(read), _READ_BYTES_MAX):
            yield read[at : at + _READ_BYTES_MAX]


async def _settled() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
