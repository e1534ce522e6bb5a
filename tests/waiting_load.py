"""Clients that post with `?wait=folded` and read at once what they have posted, while processes of
the stack are killed. A read that lacks what its client was told is stale."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

import orjson

_AGAIN_S = 0.1
_ANSWER_S = 45.0
_READS_MAX = 600  # while the gateway cannot tell
_TIMEOUT = "20s"


class Reply(NamedTuple):
    status: int
    told: dict[str, object]


class Connection:
    """A client's own, made again where it breaks. No more of HTTP than the gateway writes: with a
    whole client the load would take the cores from what it loads."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._at = address.hostname, address.port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, target: str, body: bytes = b"", headers: str = "") -> Reply:
        """OSError where no whole answer comes."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await self._ask(method, target, body, headers)
        except (OSError, EOFError, ValueError) as error:  # TimeoutError is an OSError
            self.close()
            raise OSError("no answer") from error

    async def _ask(self, method: str, target: str, body: bytes, headers: str) -> Reply:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._at)
        reader, writer = self._streams
        length = f"content-length: {len(body)}\r\n" if method == "POST" else ""
        head = f"{method} {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n{length}{headers}\r\n"
        writer.write(head.encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        named = dict(line.split(b": ", 1) for line in lines[1:] if line)
        told = orjson.loads(await reader.readexactly(int(named[b"content-length"])))
        if named.get(b"connection") == b"close":
            self.close()
        return Reply(int(lines[0].split()[1]), told)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@dataclass
class Found:
    counts: Counter[str] = field(default_factory=Counter)
    stale: list[str] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)

    def line(self) -> str:
        ordered = sorted(self.waits_s) or [0.0]
        p50, p99 = (1000 * ordered[int(len(ordered) * part)] for part in (0.5, 0.99))
        counts = ", ".join(f"{count:,} {what}" for what, count in sorted(self.counts.items()))
        return f"{counts}; folded after p50 {p50:,.0f} ms, p99 {p99:,.0f} ms"


class Client:
    """Of one device, whose posts it alone makes."""

    def __init__(
        self, device: str, gateway: Callable[[], str], other: Callable[[], str] | None, found: Found
    ) -> None:
        """`other`: another gateway, which is asked for what this one has told."""
        self._device, self._found = device, found
        self._gateway = Connection(gateway())
        self._other = Connection(other()) if other is not None else None
        self._number = 0

    async def run(self, goes_on: Callable[[], bool]) -> None:
        while goes_on():
            self._number += 1
            await self._post()
        self._gateway.close()
        if self._other is not None:
            self._other.close()

    async def _post(self) -> None:
        path = f"/v1/telemetry/{self._device}?wait=folded&timeout={_TIMEOUT}"
        body = b'{"value": %d}' % (self._number % 80)
        key = f"idempotency-key: {self._device}-{self._number}\r\n"
        began_s = time.monotonic()
        while True:
            try:
                reply = await self._gateway.ask("POST", path, body, key)
            except OSError:
                self._found.counts["POSTs without an answer"] += 1
            else:
                if reply.status in (200, 202):
                    break
                self._found.counts[f"POSTs with {reply.status}"] += 1
            await asyncio.sleep(_AGAIN_S)
        self._found.counts["posts"] += 1
        if reply.status == 200:
            self._found.counts["folded"] += 1
            self._found.waits_s.append(time.monotonic() - began_s)
            (state,) = reply.told["states"]  # type: ignore[attr-defined]
            await self._read(self._gateway, state["version"], "")
            if self._other is not None:
                wanted = f"if-version-at-least: {state['version']}\r\n"
                await self._read(self._other, state["version"], "", wanted)
        else:
            self._found.counts[f"only {reply.told['reached']}"] += 1
            await self._read(self._gateway, 0, f"?after={reply.told['id']}&timeout={_TIMEOUT}")

    async def _read(
        self, connection: Connection, version: int, query: str, headers: str = ""
    ) -> None:
        """The first answer that tells a state, or that there is none."""
        for _ in range(_READS_MAX):
            try:
                reply = await connection.ask("GET", f"/state/{self._device}{query}", b"", headers)
            except OSError:
                self._found.counts["reads without an answer"] += 1
            else:
                if reply.status in (200, 404):
                    break
                self._found.counts[f"reads with {reply.status}"] += 1
            await asyncio.sleep(_AGAIN_S)
        else:
            self._found.stale.append(f"{self._device}: never shown with {self._number}")
            return
        self._found.counts["reads"] += 1
        shown = reply.told
        count = shown.get("state", {}).get("count", 0)  # type: ignore[attr-defined]
        if count < self._number or int(shown.get("version", 0)) < version:  # type: ignore[call-overload]
            said = f"count {count} of {self._number}, version {shown.get('version')} of {version}"
            self._found.stale.append(f"{self._device}{query}: {said}")


async def post_and_read(
    devices: list[str],
    gateway: Callable[[], str],
    goes_on: Callable[[int], bool],
    other: Callable[[], str] | None = None,
) -> Found:
    """All devices at once; `goes_on` is asked before each post, with how many there are."""
    found = Found()
    clients = [Client(device, gateway, other, found) for device in devices]
    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(client.run(lambda: goes_on(found.counts["posts"])))
    return found
