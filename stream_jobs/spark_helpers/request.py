"""What the server of helpers is asked for, as `ask.py` has sent it."""

import marshal
import os
import socket
from typing import NamedTuple

from stream_jobs.spark_helpers.ask import LENGTH_BYTES, STREAMS


class Request(NamedTuple):
    arguments: list[bytes]  # the module first
    environment: dict[bytes, bytes]
    folder: bytes


def received(asker: socket.socket) -> tuple[Request, list[int]]:
    """And the standard streams. ValueError or EOFError where it is no request."""
    length, streams, _, _ = socket.recv_fds(asker, LENGTH_BYTES, STREAMS)
    try:
        if len(streams) != STREAMS or len(length) != LENGTH_BYTES:
            raise ValueError("it does not begin as a request does")
        return Request(*marshal.loads(_whole(asker, int.from_bytes(length, "big")))), streams
    except BaseException:
        for stream in streams:
            os.close(stream)
        raise


def _whole(asker: socket.socket, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        if not (part := asker.recv(length - len(found))):
            raise EOFError
        found += part
    return bytes(found)
