"""A TCP proxy before PostgreSQL that breaks a connection exactly at its COMMIT, or freezes it."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

Way = Literal["pass", "lose the request", "lose the answer"]
_RESET = struct.pack("ii", 1, 0)  # close() then sends RST


class PostgresProxy:
    """`way` holds until it has struck once."""

    def __init__(self, url: str) -> None:
        parts = conninfo_to_dict(url)
        self._target = str(parts["host"]), int(parts["port"] or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = make_conninfo(url, host="127.0.0.1", port=self._listener.getsockname()[1])
        self.way: Way = "pass"
        self.struck = 0
        self._flowing = threading.Event()
        self._flowing.set()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self) -> None:
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    def close(self) -> None:
        self.thaw()
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._open += [client, server]
                cut = threading.Event()
                for pump in (self._ask, self._answer):
                    threading.Thread(target=pump, args=(client, server, cut), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while asked := client.recv(65536):
                self._flowing.wait()
                if b"COMMIT" in asked and self.way in ("lose the request", "lose the answer"):
                    way, self.way = self.way, "pass"
                    self.struck += 1
                    if way == "lose the request":
                        _reset(client)
                        break
                    cut.set()
                server.sendall(asked)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _answer(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while answered := server.recv(65536):
                self._flowing.wait()
                if cut.is_set():  # the server has done it, and the client will never know
                    _reset(client)
                    return
                client.sendall(answered)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    client.shutdown(socket.SHUT_RD)
    client.close()


@contextmanager
def proxy_before(url: str) -> Iterator[PostgresProxy]:
    proxy = PostgresProxy(url)
    try:
        psycopg.connect(proxy.url).close()
        yield proxy
    finally:
        proxy.close()
