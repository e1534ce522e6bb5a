"""What a connection, and each exchange of a request for its answer, ask of each other."""

from typing import Protocol

from gateway.http.message import Headers


class Exchange(Protocol):
    @property
    def keep_alive(self) -> bool: ...

    @property
    def response_started(self) -> bool: ...

    @property
    def response_complete(self) -> bool: ...

    def start(self) -> None:
        """All earlier requests of the connection are answered."""

    def take(self, chunk: bytes) -> None: ...

    def end(self) -> None:
        """The body is whole."""

    def be_last(self) -> None:
        """The server ends: this answer is the last of its connection, and has to come to an end."""

    def drop(self, why: str) -> None:
        """Nobody hears an answer any more."""


class Connection(Protocol):
    def write(self, raw: bytes) -> None: ...

    def close(self) -> None:
        """The answer just written is the last one."""

    def on_response_complete(self) -> None: ...

    def default_headers(self) -> Headers:
        """Those of every answer: the same object as long as they are the same."""
