"""Devices that POST one payload after the other, each waiting for its answer."""

import asyncio
import contextlib
import json
import random

from tests.faults.ledger import Ledger, Told

CLIENTS = 32
TOPIC = "ingest.telemetry.v1"
_ANSWER_S = 20.0


class Load:
    """So many clients, each with entities of its own, that send at `per_s` together where the
    gateway lets them, until `over`."""

    def __init__(self, port: int, ledger: Ledger, seed: int, per_s: float) -> None:
        self.answered = 0
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
            entity = entities[number % len(entities)]
            padding = chance.randbytes(chance.choice((10, 100, 250, 2000)))
            body = f"{entity} {number} ".encode() + padding
            self._ledger.before(entity, number, body)
            told, place = Told.UNKNOWN, None
            try:
                if stream is None:
                    stream = await asyncio.open_connection("127.0.0.1", self._port)
                async with asyncio.timeout(_ANSWER_S):
                    told, place = await _post(*stream, entity, body)
            except (OSError, EOFError, ValueError, TimeoutError):
                if stream is not None:
                    stream[1].transport.abort()
                    stream = None
            self._ledger.after(entity, number, told, place)
            number += 1
            self.answered += 1
        if stream is not None:
            stream[1].close()
            with contextlib.suppress(OSError):
                await stream[1].wait_closed()


async def _post(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, entity: str, body: bytes
) -> tuple[Told, tuple[int, int] | None]:
    head = [
        f"POST /v1/telemetry/{entity} HTTP/1.1",
        "Host: gateway",
        f"Content-Length: {len(body)}",
    ]
    writer.write("\r\n".join([*head, "", ""]).encode() + body)
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").lower().split("\r\n")
    status = int(lines[0].split(" ")[1])
    length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
    answer = json.loads(await reader.readexactly(length))
    if "connection: close" in lines:
        writer.close()
    if status != 202:
        return Told(answer["outcome"]), None
    if "spooled" in answer:
        return Told.SPOOLED, None
    assert answer["topic"] == TOPIC
    return Told.WRITTEN, (answer["partition"], answer["offset"])
