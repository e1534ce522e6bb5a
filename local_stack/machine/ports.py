"""Free ports on 127.0.0.1: the customary ones, or others where those are taken."""

import random
import socket
from collections.abc import Collection
from pathlib import Path

EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port that merely waits after a close counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port(taken: Collection[int] = ()) -> int:
    """A port below the range the kernel deals out to clients.

    From inside that range a client that knocks again and again at a stopped server may be dealt
    the server's own port, and then the server cannot come back.
    """
    ports = range(20_000, _first_ephemeral())
    for port in random.sample(ports, len(ports)):
        if port not in taken and is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _first_ephemeral() -> int:
    try:
        first = int(EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError):
        first = 32_768
    return max(first, 20_000)
