"""What the sample devices send: as good as real, and as bad. Pure; the seed decides."""

import json
import math
import random
from collections import Counter
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple


class MessageKind(StrEnum):
    PLAIN = "plain"
    STATUS = "status"
    LATE = "late"  # older than what was sent before
    DOUBLED = "doubled"  # sent twice, as a device does that missed the answer
    WRONG_TYPE = "wrong type"
    NOT_JSON = "not JSON"
    BAD_UTF8 = "bad UTF-8"
    UNKNOWN = "unknown device"


BROKEN = (MessageKind.WRONG_TYPE, MessageKind.NOT_JSON, MessageKind.BAD_UTF8)
# of fifty messages that many, in any order
_DECK = {
    MessageKind.STATUS: 4,
    MessageKind.LATE: 3,
    MessageKind.DOUBLED: 3,
    MessageKind.WRONG_TYPE: 1,
    MessageKind.NOT_JSON: 1,
    MessageKind.BAD_UTF8: 1,
    MessageKind.UNKNOWN: 1,
}
_DECK_SIZE = 50
_FIRST_UNKNOWN = 9001  # the sample devices end at 1000
_WAVE = 30  # messages from one peak of a device's temperature to the next


class DeviceMessage(NamedTuple):
    kind: MessageKind
    endpoint: str
    device: str
    body: bytes
    key: str  # Idempotency-Key


class Fleet:
    def __init__(self, devices: int, seed: int, run: str, *, with_status: bool) -> None:
        self._random = random.Random(seed)
        self._devices = devices
        self._run = run
        self._phases = [self._random.random() for _ in range(devices)]
        self._said: Counter[int] = Counter()
        self._deck: list[MessageKind] = []
        self._cards = [kind for kind, n in _DECK.items() for _ in range(n)]
        if not with_status:
            self._cards = [kind for kind in self._cards if kind is not MessageKind.STATUS]
        self._cards += [MessageKind.PLAIN] * (_DECK_SIZE - len(self._cards))
        self._count = 0

    def wave_s(self, rate: float) -> float:
        """How long a device takes from one peak to the next, so many messages a second in all."""
        return _WAVE * self._devices / rate

    def next(self, now: datetime) -> DeviceMessage:
        if not self._deck:
            self._deck = self._random.sample(self._cards, len(self._cards))
        kind = self._deck.pop()
        number = self._random.randint(1, self._devices)
        self._count += 1
        return DeviceMessage(
            kind,
            "status" if kind is MessageKind.STATUS else "telemetry",
            _name(_FIRST_UNKNOWN + number % 3 if kind is MessageKind.UNKNOWN else number),
            self._body(kind, number, now),
            f"demo-{self._run}-{self._count}",
        )

    def _body(self, kind: MessageKind, number: int, now: datetime) -> bytes:
        if kind is MessageKind.NOT_JSON:
            return b'{"value": 21.'
        if kind is MessageKind.BAD_UTF8:
            return b'{"room": "K\xfcche"}'
        if kind is MessageKind.LATE:
            now -= timedelta(seconds=self._random.randint(60, 600))
        at = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if kind is MessageKind.STATUS:
            status = self._random.choice(["online", "online", "offline"])
            return json.dumps({"status": status, "at": at}).encode()
        field, value = self._measured(number)
        if kind is MessageKind.WRONG_TYPE:
            return json.dumps({field: "warm", "at": at}).encode()
        return json.dumps({field: value, "at": at}).encode()

    def _measured(self, number: int) -> tuple[str, float]:
        """A wave through all the states that a device has."""
        self._said[number] += 1
        turn = self._said[number] / _WAVE + self._phases[number - 1]
        celsius = 48 + 42 * math.sin(2 * math.pi * turn) + self._random.gauss(0, 1)
        if number % 10 == 0:  # the sample devices of model thermo-f
            return "temp_f", round(celsius * 9 / 5 + 32, 1)
        return "value", round(celsius, 1)


def _name(number: int) -> str:
    return f"device-{number:04}"
