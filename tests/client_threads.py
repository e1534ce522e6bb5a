"""Clients that post in threads of their own, all the time that a test looks on."""

import threading
from collections.abc import Sequence
from typing import Generic, TypeVar


class ClientThread(threading.Thread):
    """Until it is `over`. What no client should see is `wrong`."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.wrong: list[str] = []


AClient = TypeVar("AClient", bound=ClientThread)


class Clients(Generic[AClient]):
    def __init__(self, clients: Sequence[AClient]) -> None:
        self.clients = clients

    def __enter__(self) -> "Clients[AClient]":
        for client in self.clients:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        for client in self.clients:
            client.over.set()
        for client in self.clients:
            client.join(60)
        assert [client.wrong for client in self.clients] == [[]] * len(self.clients)
        assert not any(client.is_alive() for client in self.clients)
