"""Devices that send whatever devices send, and send again what was not acknowledged: one payload,
lines of one device, frames of many."""

import asyncio
import itertools
import json
import random
import time
from collections import deque
from collections.abc import Mapping, Sequence

from tests.faults.client_answers import Told
from tests.faults.whole import clocks, posts
from tests.faults.whole.callers import Caller, Connection, Program
from tests.faults.whole.clocks import Clock
from tests.faults.whole.posts import Post
from tests.faults.whole.sends import EVENT, WAITING, Answer, Message, Sends

CLIENTS = 24
DEVICES_OF_A_CLIENT = 4
DEVICES = [f"device-{n + 1:04}" for n in range(CLIENTS * DEVICES_OF_A_CLIENT)]
# each client has one that sends before it is registered
LATE_DEVICES = [f"late-{n:03}1" for n in range(CLIENTS)]
CHATTY = "nobody-chatty"  # nobody has registered it, and it sends more than others
_OF_A_PROGRAM = 5  # so many clients send through each program
_PATIENCE_S = 300.0
_AGAIN_AFTER_S = 0.2
# a few come close behind, others when the entity has had many more
_REPEATED_WITHIN, _REPEATED_LATE_WITHIN = 10, 400
_BATCHES_REMEMBERED = 3
# lines of a batch: from, to, how often. Their mean is what a share of all is made from
_SIZES = ((2, 10, 40), (11, 64, 27), (65, 300, 24), (301, 1_000, 7), (1_001, 2_000, 2))
_MEAN_LINES = sum((a + b) / 2 * often for a, b, often in _SIZES) / 100
_FRAMES_MAX = 500
_BURST = (50, 300)  # payloads of as many devices that nobody knows

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
    """So many clients, each with devices of its own, that make `per_s` requests together where the
    gateway lets them, until `over`; batches among them bring `lines_per_s` payloads more. What has
    a key is sent so many `times`."""

    def __init__(
        self,
        port: int,
        sends: Sends,
        seed: int,
        per_s: float,
        lines_per_s: float = 0.0,
        times: int = 1,
        programs: Mapping[str, Program] | None = None,
    ) -> None:
        self.over = False
        self.wrong: list[str] = []  # answers that nobody should get
        # of those that were accepted, and wait for nobody to be registered
        self.newest_event_id = ""
        self.port, self.sends, self.seed, self.times = port, sends, seed, times
        self.every_s = CLIENTS / per_s
        self.batches = lines_per_s / per_s / _MEAN_LINES
        self._programs = [*(programs or {}).values()]
        self._numbers = itertools.count(len(sends.messages))

    async def run(self) -> None:
        await asyncio.gather(*(_Client(self, number).run() for number in range(CLIENTS)))

    def number(self) -> int:
        return next(self._numbers)

    def caller(self, client: int) -> Caller:
        program = client // _OF_A_PROGRAM  # the first of them
        if program < len(self._programs):
            return self._programs[program]
        return Connection(self.port)

    async def send(self, caller: Caller, post: Post) -> Sequence[Answer]:
        sent_at = await self.sends.before(post.messages)
        answers: Sequence[Answer] = [Answer(Told.UNKNOWN)] * len(post.messages)
        try:
            answers = posts.answers(post, *await caller.post(post))
        except (OSError, EOFError, TimeoutError):
            caller.close()
        except (ValueError, KeyError, asyncio.LimitOverrunError) as error:
            caller.close()
            said = f"{error!r}"[:1_000]
            self.wrong.append(f"no answer of the gateway's: {said} to {post.messages[0]}")
        self.sends.after(sent_at, post.messages, answers)
        for message, answer in zip(post.messages, answers, strict=True):
            is_its_own = message.is_line or message.key in (None, f"k{message.number}")
            known = message.fate == EVENT and message.device in DEVICES
            if answer.accepts and is_its_own and known:
                self.newest_event_id = str(answer.id)
        return answers


class _Client:
    """One after the other: so each of its devices has an order."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        self._fleet = fleet
        self._number = number
        self._chance = random.Random(f"{fleet.seed} {number}")
        self._devices = DEVICES[number * DEVICES_OF_A_CLIENT :][:DEVICES_OF_A_CLIENT]
        known = [*self._devices, LATE_DEVICES[number]]
        kinds = itertools.islice(itertools.cycle(clocks.KINDS), number, None)
        self._clocks = {d: Clock(kind, self._chance) for d, kind in zip(known, kinds, strict=False)}
        self._recent: deque[Message] = deque(maxlen=_REPEATED_WITHIN)
        self._old: deque[Message] = deque(maxlen=_REPEATED_LATE_WITHIN)
        self._batches: deque[Sequence[Message]] = deque(maxlen=_BATCHES_REMEMBERED)
        self._caller = fleet.caller(number)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        next_s = loop.time()
        try:
            while not self._fleet.over:
                await asyncio.sleep(next_s - loop.time())
                next_s = max(next_s + self._fleet.every_s, loop.time())
                await self._something()
        finally:
            self._caller.close()

    async def _something(self) -> None:
        chance, choice = self._chance, self._chance.random()
        if chance.random() < self._fleet.batches:
            await self._batch()
        elif choice < 0.05 and self._recent:  # a device that has not understood its answer
            await self._send(posts.single(chance.choice(self._recent)))
        elif choice < 0.055 and self._old:
            await self._send(posts.single(chance.choice(self._old)))
        elif choice < 0.056 and self._batches:
            await self._send(_post_of(chance.choice(self._batches)))
        else:
            await self._one(choice > 0.95)

    async def _one(self, is_repeated: bool) -> None:
        message = self._message()
        self._fleet.sends.add([message])
        await self._until_accepted([message])
        if message.key is None:
            return
        self._recent.append(message)
        self._old.append(message)
        for _ in range(self._fleet.times - 1 or is_repeated):
            await self._send(posts.single(message))

    async def _batch(self) -> None:
        chance = self._chance
        batch = self._burst() if chance.random() < 0.06 else self._lines_or_frames()
        self._fleet.sends.add(batch)
        await self._until_accepted(batch)
        if batch[0].key is None:
            return
        self._batches.append(batch)
        again = self._fleet.times - 1 or chance.choices((0, 1, 4), (70, 25, 5))[0]
        for _ in range(again):
            await self._send(_post_of(batch))
        if chance.random() < 0.1:
            await self._send(_post_of(batch[: len(batch) // 2 or 1]))

    def _lines_or_frames(self) -> Sequence[Message]:
        """All with a key, or none: what is said of one is then said of all."""
        chance = self._chance
        low, high, _ = chance.choices(_SIZES, [often for *_, often in _SIZES])[0]
        count = chance.randint(low, high)
        has_key = chance.random() < 0.8
        if chance.random() < 0.7:
            key, devices = f"b{self._fleet.number()}" if has_key else None, [self._device()] * count
            return [line._replace(key=key, is_line=True) for line in self._payloads(devices)]
        framed = self._payloads([self._device() for _ in range(min(count, _FRAMES_MAX))])
        return [frame._replace(key=f"k{frame.number}" if has_key else None) for frame in framed]

    def _payloads(self, devices: Sequence[str]) -> Sequence[Message]:
        """Of one endpoint."""
        is_status = CHATTY not in devices and self._chance.random() < 0.15
        endpoint = "status" if is_status else "telemetry"
        return [self._payload(endpoint, device) for device in devices]

    def _burst(self) -> Sequence[Message]:
        """Each of another device that nobody knows, whose id is as good as random."""
        chance, numbers = self._chance, self._fleet.number
        return [
            Message(
                number, "telemetry", f"r{chance.getrandbits(48):x}", body, f"k{number}", WAITING
            )
            for number in (numbers() for _ in range(chance.randint(*_BURST)))
            for body in [_reading(number, chance, {})]
        ]

    def _payload(self, endpoint: str, device: str) -> Message:
        number, chance = self._fleet.number(), self._chance
        body, fate = _reading(number, chance, self._at(device)), EVENT
        if device == CHATTY:
            fate = WAITING
        elif chance.random() < 0.03:
            _, body, fate = chance.choice([one for one in _BROKEN if one[0] == endpoint])
            body = body.replace(b"#N#", str(number).encode())
        elif endpoint == "status":
            body = _status(number, chance, self._at(device))
        return Message(number, endpoint, device, body, None, fate)

    def _device(self) -> str:
        chance = self._chance
        if self._number == 0 and chance.random() < 0.3:
            return CHATTY
        return LATE_DEVICES[self._number] if chance.random() < 0.1 else chance.choice(self._devices)

    def _message(self) -> Message:
        chance = self._chance
        number, choice = self._fleet.number(), chance.random()
        device = self._device()
        key = f"k{number}" if chance.random() < 0.85 else None
        if 0.05 <= choice < 0.07:
            device = f"nobody-{self._number}-{chance.randrange(3)}"
        if device.startswith("nobody"):
            body = _reading(number, chance, {})
            return Message(number, "telemetry", device, body, key, WAITING)
        if choice < 0.05:
            endpoint, body, reason = chance.choice(_BROKEN)
            body = body.replace(b"#N#", str(number).encode())
            return Message(number, endpoint, device, body, key, reason)
        if choice < 0.22:
            body = _status(number, chance, self._at(device))
            return Message(number, "status", device, body, key, EVENT)
        body = _reading(number, chance, self._at(device))
        used = self._recent[-1] if self._recent and choice < 0.23 else None
        if used is not None and (used.endpoint, used.fate) == ("telemetry", EVENT):
            # another payload under its key
            return used._replace(number=number, body=body)
        return Message(number, "telemetry", device, body, key, EVENT)

    def _at(self, device: str) -> Mapping[str, str]:
        clock = self._clocks.get(device)
        now_ms = time.time_ns() // 1_000_000
        return clocks.said(clock.at_ms(now_ms)) if clock else {}

    async def _until_accepted(self, messages: Sequence[Message]) -> None:
        """Without a key it is sent once, or again where nothing of it was written: whatever became
        of it, again would be another event. Of a batch only what was refused goes again, or, for a
        client that does not look so closely, the whole."""
        began_s = time.monotonic()
        left = messages
        while left and not self._fleet.wrong:  # else the run has failed, and may end
            again = messages if messages[0].key and self._chance.random() < 0.3 else left
            answers = await self._send(_post_of(again))
            accepted = {m.number for m, a in zip(again, answers, strict=True) if a.accepts}
            refused = {
                m.number
                for m, a in zip(again, answers, strict=True)
                if a.told == Told.DEFINITE or (m.key is not None and not a.accepts)
            }
            # what the gateway took before is not missing now, whatever it says of a repeat
            left = [m for m in left if m.number in refused and m.number not in accepted]
            if left and time.monotonic() - began_s > _PATIENCE_S:
                self._fleet.wrong.append(f"not taken within {_PATIENCE_S:.0f} s: {left[0]}")
                return
            if left:
                await asyncio.sleep(_AGAIN_AFTER_S)

    async def _send(self, post: Post) -> Sequence[Answer]:
        return await self._fleet.send(self._caller, post)


def _post_of(messages: Sequence[Message]) -> Post:
    if messages[0].is_line:
        return posts.lines(messages, messages[0].number % 7)
    return posts.single(messages[0]) if len(messages) == 1 else posts.frames(messages)


def _reading(number: int, chance: random.Random, at: Mapping[str, str]) -> bytes:
    """As both device models say it."""
    value = chance.choice((chance.randint(0, 100), round(chance.uniform(0, 100), 2)))
    return json.dumps({"value": value, "temp_f": value, "n": number, **at}).encode()


def _status(number: int, chance: random.Random, at: Mapping[str, str]) -> bytes:
    status = chance.choice(("online", "offline"))
    return json.dumps({"status": status, "n": number, **at}).encode()
