"""Devices that send whatever devices send, and send again what was not acknowledged."""

import asyncio
import itertools
import json
import random
import time
from collections import deque

from tests.faults.ledger import Told
from tests.faults.whole.sends import EVENT, WAITING, Answer, Message, Sends

CLIENTS = 24
DEVICES_OF_A_CLIENT = 4
DEVICES = [f"device-{n + 1:04}" for n in range(CLIENTS * DEVICES_OF_A_CLIENT)]
# each client has one that sends before it is registered
LATE_DEVICES = [f"late-{n:03}1" for n in range(CLIENTS)]
_ANSWER_S = 20.0
_PATIENCE_S = 300.0
_AGAIN_AFTER_S = 0.2
# far fewer than the ids that a snapshot remembers: what comes later counts twice, as documented
_REPEATED_WITHIN = 10
_DAY_MS = 86_400_000

# what can be no event, and why; #N# makes each of them the only one
_BROKEN = (
    ("telemetry", rb'{"value": "warm", "temp_f": "warm", "n": #N#}', "wrong_type"),
    ("telemetry", rb'{"value": 1, "temp_f": 1, "n": #N#', "not_json"),
    ("telemetry", rb"[1, #N#]", "not_an_object"),
    ("telemetry", rb'{"other": 1, "n": #N#}', "field_missing"),
    ("telemetry", rb'{"value": 1, "temp_f": 1, "at": "yesterday", "n": #N#}', "bad_time"),
    ("telemetry", rb'{"value": 1, "temp_f": 1, "note": "a\u0000", "n": #N#}', "nul_in_text"),
    ("telemetry", b'{"value": 1, "temp_f": 1, "note": "\xff", "n": #N#}', "not_json"),
    ("status", rb'{"status": "asleep", "n": #N#}', "bad_value"),
    ("status", rb'{"n": #N#}', "field_missing"),
)


class Fleet:
    """So many clients, each with devices of its own, that send at `per_s` together where the
    gateway lets them, until `over`; what has a key so many `times`."""

    def __init__(self, port: int, sends: Sends, seed: int, per_s: float, times: int = 1) -> None:
        self.over = False
        self.wrong: list[str] = []  # answers that nobody should get
        # of those that were accepted, and wait for nobody to be registered
        self.newest_event_id = ""
        self._numbers = itertools.count(len(sends.messages))
        self._port, self._sends, self._seed = port, sends, seed
        self._every_s = CLIENTS / per_s
        self._times = times

    async def run(self) -> None:
        await asyncio.gather(*(self._client(number) for number in range(CLIENTS)))

    async def _client(self, client: int) -> None:
        chance = random.Random(f"{self._seed} {client}")
        devices = DEVICES[client * DEVICES_OF_A_CLIENT :][:DEVICES_OF_A_CLIENT]
        recent: deque[Message] = deque(maxlen=_REPEATED_WITHIN)
        loop = asyncio.get_running_loop()
        next_s = loop.time()
        async with _Connection(self._port) as gateway:
            while not self.over:
                await asyncio.sleep(next_s - loop.time())
                next_s = max(next_s + self._every_s, loop.time())
                choice = chance.random()
                if choice < 0.05 and recent:  # a device that has not understood its answer
                    await self._once(gateway, chance.choice(recent))
                    continue
                message = self._message(chance, client, devices, recent)
                self._sends.add(message)
                await self._until_accepted(gateway, message)
                if message.key is None:
                    continue
                recent.append(message)
                for _ in range(self._times - 1 or choice > 0.95):
                    await self._once(gateway, message)

    def _message(
        self, chance: random.Random, client: int, devices: list[str], recent: deque[Message]
    ) -> Message:
        number, choice = next(self._numbers), chance.random()
        device = LATE_DEVICES[client] if chance.random() < 0.1 else chance.choice(devices)
        key = f"k{number}" if chance.random() < 0.85 else None
        if choice < 0.05:
            endpoint, body, reason = chance.choice(_BROKEN)
            body = body.replace(b"#N#", str(number).encode())
            return Message(number, endpoint, device, body, key, reason)
        if choice < 0.07:
            nobody = f"nobody-{client}-{chance.randrange(3)}"
            return Message(number, "telemetry", nobody, _reading(number, chance), key, WAITING)
        if choice < 0.22:
            body = json.dumps(
                {"status": chance.choice(("online", "offline")), "n": number, **_at(chance)}
            )
            return Message(number, "status", device, body.encode(), key, EVENT)
        used = recent[-1] if recent and choice < 0.23 else None
        if used is not None and (used.endpoint, used.fate) == ("telemetry", EVENT):
            # another payload under its key
            return used._replace(number=number, body=_reading(number, chance))
        return Message(number, "telemetry", device, _reading(number, chance), key, EVENT)

    async def _until_accepted(self, gateway: "_Connection", message: Message) -> None:
        """Without a key it is sent once: whatever became of it, again would be another event."""
        began_s = time.monotonic()
        while not await self._once(gateway, message) and message.key is not None:
            if time.monotonic() - began_s > _PATIENCE_S:
                self.wrong.append(f"not taken within {_PATIENCE_S:.0f} s: {message}")
                return
            await asyncio.sleep(_AGAIN_AFTER_S)

    async def _once(self, gateway: "_Connection", message: Message) -> bool:
        await self._sends.before(message)
        answer = Answer(Told.UNKNOWN)
        try:
            answer = await gateway.post(message)
        except (OSError, EOFError, TimeoutError):
            gateway.close()
        except (ValueError, KeyError) as error:
            gateway.close()
            self.wrong.append(f"no answer of the gateway's: {error!r} to {message}")
        self._sends.after(message, answer)
        is_its_own = message.key == f"k{message.number}"
        if answer.accepts and message.fate == EVENT and is_its_own and message.device in DEVICES:
            self.newest_event_id = str(answer.id)
        return answer.accepts


class _Connection:
    def __init__(self, port: int) -> None:
        self._port = port
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> "_Connection":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._stream is not None:
            self._stream[1].transport.abort()
            self._stream = None

    async def post(self, message: Message) -> Answer:
        async with asyncio.timeout(_ANSWER_S):
            if self._stream is None:
                self._stream = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._stream
            head = [
                f"POST /v1/{message.endpoint}/{message.device} HTTP/1.1",
                "Host: localhost",
                f"Content-Length: {len(message.body)}",
                *([f"Idempotency-Key: {message.key}"] if message.key else []),
            ]
            writer.write("\r\n".join([*head, "", ""]).encode() + message.body)
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").lower().split("\r\n")
            fields = dict(line.split(": ", 1) for line in lines[1:] if line)
            said = json.loads(await reader.readexactly(int(fields["content-length"])))
        if fields.get("connection") == "close":
            self.close()
        status = int(lines[0].split(" ")[1])
        if status == 503:
            return Answer(Told(said["outcome"]))
        if status != 202:
            raise ValueError(f"{status} {said}")
        if "spooled" in said:
            return Answer(Told.SPOOLED, said["id"])
        place = said["topic"], said["partition"], said["offset"]
        return Answer(Told.WRITTEN, said["id"], place)


def _reading(number: int, chance: random.Random) -> bytes:
    """As both device models say it."""
    value = chance.choice((chance.randint(0, 100), round(chance.uniform(0, 100), 2)))
    return json.dumps({"value": value, "temp_f": value, "n": number, **_at(chance)}).encode()


def _at(chance: random.Random) -> dict[str, str]:
    """Some say nothing, some are late, very late, or ahead of the time."""
    away_ms = chance.choice(
        (
            *(None,) * 4,
            *(chance.randint(-60_000, 0),) * 3,
            chance.randint(-2 * _DAY_MS, -60_000),
            chance.randint(0, 240_000),
            chance.randint(300_000, _DAY_MS),
        )
    )
    if away_ms is None:
        return {}
    at_ms = time.time_ns() // 1_000_000 + away_ms
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_ms // 1000))
    return {"at": f"{at}.{at_ms % 1000:03}Z"}
