"""Clients that POST one payload after the other, or batches, each waiting for its answer."""

import asyncio
import contextlib
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gateway.ingest.split_batch import FRAMES, NDJSON
from tests.faults.client_answers import Ledger, Told
from tests.faults.oracles import Place

CLIENTS = 32
TOPIC = "ingest.telemetry.v1"
_ANSWER_S = 20.0


class Payload(NamedTuple):
    entity: str
    number: int
    body: bytes


class Post(NamedTuple):
    path: str
    media_type: bytes
    body: bytes
    payloads: Sequence[Payload]


class Load:
    """So many clients, each with entities of its own, that send at `per_s` together where the
    gateway lets them, until `over`."""

    def __init__(self, port: int, ledger: Ledger, seed: int, per_s: float) -> None:
        self.answered = 0
        self.written = 0  # POSTs of which a payload was told to be in the log
        self.over = False
        self._per_s = per_s
        self._port = port
        self._ledger = ledger
        self._seed = seed

    async def run(self) -> None:
        await asyncio.gather(*(self._client(number) for number in range(CLIENTS)))

    async def _client(self, client: int) -> None:
        chance = random.Random(f"{self._seed} {client}")
        entities = [f"device-{client}-{number}" for number in range(4)]
        number = 0
        stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        loop = asyncio.get_running_loop()
        next_s = loop.time()
        while not self.over:
            await asyncio.sleep(next_s - loop.time())
            next_s = max(next_s + CLIENTS / self._per_s, loop.time())
            post = _next_post(chance, entities, number)
            for payload in post.payloads:
                self._ledger.before(*payload)
            told: list[tuple[Told, Place | None]] = [(Told.UNKNOWN, None)] * len(post.payloads)
            try:
                if stream is None:
                    stream = await asyncio.open_connection("127.0.0.1", self._port)
                async with asyncio.timeout(_ANSWER_S):
                    told = await _told(*stream, post)
            except (OSError, EOFError, ValueError, TimeoutError):
                if stream is not None:
                    stream[1].transport.abort()
                    stream = None
            for (entity, its_number, _), outcome in zip(post.payloads, told, strict=True):
                self._ledger.after(entity, its_number, *outcome)
            number += len(post.payloads)
            self.answered += 1
            self.written += any(outcome is Told.WRITTEN for outcome, _ in told)
        if stream is not None:
            stream[1].close()
            with contextlib.suppress(OSError):
                await stream[1].wait_closed()


def _next_post(chance: random.Random, entities: Sequence[str], number: int) -> Post:
    """One payload mostly; or lines of one entity, now and then more than travel together; or frames
    of all entities."""
    (form,) = chance.choices(("one", "lines", "frames"), (8, 1, 1))
    (count,) = (1,) if form == "one" else chance.choices((2, 5, 20, 900), (40, 40, 19, 1))
    entity = entities[number % len(entities)]
    payloads = []
    for own in range(number, number + count):
        of = entities[own % len(entities)] if form == "frames" else entity
        padding = chance.randbytes(chance.choice((10, 100, 250, 2000)))
        if form == "lines":
            padding = padding.replace(b"\n", b" ")
        payloads.append(Payload(of, own, f"{of} {own} ".encode() + padding))
    match form:
        case "lines":
            body = b"\n".join(payload.body for payload in payloads)
            return Post(f"/v1/telemetry/{entity}", NDJSON, body, payloads)
        case "frames":
            body = b"".join(
                f"{of} {len(framed)}\n".encode() + framed + b"\n" for of, _, framed in payloads
            )
            return Post("/v1/telemetry", FRAMES, body, payloads)
        case _:
            body = payloads[0].body
            return Post(f"/v1/telemetry/{entity}", b"application/octet-stream", body, payloads)


async def _told(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, post: Post
) -> list[tuple[Told, Place | None]]:
    """Of each payload."""
    head = [
        f"POST {post.path} HTTP/1.1",
        "Host: localhost",
        f"Content-Type: {post.media_type.decode()}",
        f"Content-Length: {len(post.body)}",
    ]
    writer.write("\r\n".join([*head, "", ""]).encode() + post.body)
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").lower().split("\r\n")
    status = int(lines[0].split(" ")[1])
    length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
    answer = json.loads(await reader.readexactly(length))
    if "connection: close" in lines:
        writer.close()
    receipts = answer["receipts"] if status == 207 else [answer] * len(post.payloads)
    return [_outcome(receipt) for receipt in receipts]


def _outcome(receipt: Mapping[str, Any]) -> tuple[Told, Place | None]:
    if "outcome" in receipt:
        return Told(receipt["outcome"]), None
    if "spooled" in receipt:
        return Told.SPOOLED, None
    assert receipt["topic"] == TOPIC
    return Told.WRITTEN, (receipt["partition"], receipt["offset"])
