"""What arrives on a connection -> requests, by httptools and the rules of request_rules.py."""

from typing import NamedTuple, Protocol

import httptools

from gateway.http.message import Headers
from gateway.http.problems import last_refusal
from gateway.http.request_rules import (
    HEAD_BYTES_MAX,
    TARGET_BYTES_MAX,
    expects_continue,
    head_too_large,
    judge,
    target_too_long,
)
from gateway.server.browser_origin import BrowserOrigin

# chunk sizes and line ends; what is more than that is in extensions
_BYTES_PER_CHUNK_MAX = 32


class NoMore(Exception):  # noqa: N818 - it is what the last request said
    """Another request behind one that ends the connection."""


class Head(NamedTuple):
    method: str
    version: str
    target: bytes
    headers: Headers
    by_name: dict[bytes, bytes]
    keep_alive: bool
    expects_continue: bool


class Connection(Protocol):
    def on_begin(self) -> None:
        """NoMore if it comes behind the last one."""

    def on_head(self, head: Head) -> None: ...

    def on_body(self, chunk: bytes) -> None: ...

    def on_end(self) -> None: ...


class RequestReader:
    """The connection hears `on_begin` with a request's first byte, `on_head` when its head is whole
    and judged, then `on_body` for each part of its body, and `on_end`."""

    __slots__ = (
        *("_arrived_bytes", "_chunks", "_connection", "_headers", "_is_in_body", "_browser_origin"),
        *("_parser", "_read_bytes", "_upgrades", "body_bytes", "framing_bytes", "heads_read"),
        "target",
    )

    def __init__(self, connection: Connection, browser_origin: BrowserOrigin | None) -> None:
        self._connection = connection
        self._browser_origin = browser_origin
        self._parser = httptools.HttpRequestParser(self)
        # what comes behind a request that ends the connection is no reason to refuse that one
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._is_in_body = False
        self._upgrades = False  # the head that was read asks for another protocol
        # of the message being received, all but its body; not what came in one read with the end of
        # the message before it
        self.framing_bytes = 0
        self._read_bytes = self.heads_read = 0  # at once, the last time
        self._arrived_bytes = 0  # with this message, from the read on in which it began
        self._chunks = 0
        self.body_bytes = 0

    def method(self) -> str:
        """The method of the last request that has begun."""
        return self._parser.get_method().decode()

    def feed(self, data: bytes) -> None:
        """Problem for what is wrong; what the connection raises comes back, too."""
        self.heads_read = 0
        self._read_bytes = read_bytes = len(data)
        self._arrived_bytes += read_bytes
        self.framing_bytes += read_bytes
        try:
            self._parse(data)
        except httptools.HttpParserCallbackError as error:
            raise (error.__context__ or error) from None
        except httptools.HttpParserError as error:
            # the parser's own fixed words: nothing of what was sent is in them
            detail = f"this is no HTTP/1.1 as RFC 9112 writes it: {error}"
            raise last_refusal(400, "malformed_request", detail) from None
        if self.framing_bytes > HEAD_BYTES_MAX + _BYTES_PER_CHUNK_MAX * self._chunks:
            if self._is_in_body:
                raise last_refusal(
                    400, "bad_chunks", "send chunks without extensions, and larger ones"
                )
            raise head_too_large()
        if self.framing_bytes < 0:  # a body whose head was not counted
            self.framing_bytes = 0

    def release(self) -> None:
        """The parser and this hold each other, and so do the connection and this: a collector of
        cycles would come late."""
        del self._parser, self._connection

    def _parse(self, data: bytes) -> None:
        """A server may ignore the wish for another protocol (RFC 9110, 7.8), and this one does; the
        parser does not, and takes what follows for that protocol. So it reads the head again,
        without the wish."""
        while True:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                if not self._upgrades:
                    raise
                rest = data[upgrade.args[0] :]
            self._upgrades = False
            data = self._head_without_upgrade() + rest
            self._parser = httptools.HttpRequestParser(self)

    def _head_without_upgrade(self) -> bytes:
        method, version = self._parser.get_method(), self._parser.get_http_version()
        lines = [b"%s %s HTTP/%s" % (method, self.target, version.encode())]
        lines += [b"%s: %s" % header for header in self._headers if header[0] != b"upgrade"]
        return b"\r\n".join((*lines, b"", b""))

    # what the parser calls

    def on_message_begin(self) -> None:
        self._connection.on_begin()
        self.target = b""
        self._headers = []
        self._is_in_body = False
        self._arrived_bytes = self._read_bytes

    def on_url(self, url: bytes) -> None:
        self.target += url
        if len(self.target) > TARGET_BYTES_MAX:
            raise target_too_long()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_body:
            raise last_refusal(
                400, "trailers_refused", "send headers before the body, not after it"
            )
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        parser, target, headers = self._parser, self.target, self._headers
        method, version = parser.get_method(), parser.get_http_version()
        by_name = judge(method, version, target, headers, self._arrived_bytes)
        if self._browser_origin is not None:
            self._browser_origin.judge(by_name.get(b"host"), by_name.get(b"origin"), method, target)
        if b"upgrade" in by_name and parser.should_upgrade():
            self._upgrades = True
            return
        waits = expects_continue(version, by_name.get(b"expect"))
        keep_alive = version != "1.0" and parser.should_keep_alive()
        self.heads_read += 1
        self._is_in_body = True
        self._connection.on_head(
            Head(method.decode(), version, target, headers, by_name, keep_alive, waits)
        )

    def on_chunk_header(self) -> None:
        self._chunks += 1

    def on_body(self, chunk: bytes) -> None:
        self.framing_bytes -= len(chunk)
        self.body_bytes += len(chunk)
        self._connection.on_body(chunk)

    def on_message_complete(self) -> None:
        if self._upgrades:
            return
        self._connection.on_end()
        self._is_in_body = False
        self.framing_bytes = self._chunks = self.body_bytes = 0
