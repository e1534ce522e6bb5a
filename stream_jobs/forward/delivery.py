"""What is on its way to a hook, and the records that tell of it. Pure."""

import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from clients.kafka.records import Outgoing
from shared.events import envelope
from shared.events.envelope import Header, Position
from shared.events.oversize_stub import fitted
from shared.forwarding.answer import Answer
from shared.forwarding.cloud_event import CloudEvent
from shared.forwarding.hook import Hook
from shared.topic_names import DELIVERY_TOPIC, again_topic, dead_letter_topic, wake_topic

STAGE = "forward"
BETWEEN = "\n"  # stands in no hook's name and in no entity's id
_REPLAY = f"{BETWEEN}replay"


class Delivery(NamedTuple):
    hook: str
    place: Position
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    arrived_ms: int

    @property
    def event(self) -> CloudEvent:
        return CloudEvent(self.key, self.value, self.headers)

    @property
    def is_again(self) -> bool:
        """It is for this hook alone: a letter that is sent on again, or a test."""
        return self.place.topic == again_topic(STAGE)

    @property
    def whose(self) -> str:
        return f"{self.hook}{BETWEEN}{self.event.entity}"

    @property
    def is_replayed(self) -> bool:
        return self.is_again and envelope.find(self.headers, envelope.REPLAY) is not None

    def share(self, hook: Hook | None) -> bytes:
        """Which bucket has it: that of its entity, where order matters. One has all mails of a
        hook: each would send mails of its own."""
        if hook is not None and hook.is_mail:
            return hook.name.encode()
        return self._own_line(hook).encode()

    def _own_line(self, hook: Hook | None) -> str:
        in_order = hook is None or hook.order == "per entity"
        return self.whose if in_order else f"{self.whose}{BETWEEN}{self.event.id}"

    def line(self, hook: Hook, bucket: int) -> str:
        """Who waits behind whom: its entity's; all of a bucket where several go together; and what
        is replayed waits for nothing else, and holds up nothing else."""
        line = self._own_line(hook) if hook.batch == 1 else f"{hook.name}{BETWEEN}{bucket}"
        return f"{line}{_REPLAY}" if self.is_replayed else line

    def pack(self) -> bytes:
        return pickle.dumps(tuple(self), pickle.HIGHEST_PROTOCOL)

    @classmethod
    def unpack(cls, raw: bytes) -> "Delivery":
        hook, place, *others = pickle.loads(raw)
        return cls(hook, Position(*place), *others)


def hook_of(line: str) -> str:
    return line.partition(BETWEEN)[0]


def is_replay(line: str) -> bool:
    return line.endswith(_REPLAY)


class Try(NamedTuple):
    """A try of the delivery that has this number in its line."""

    number: int
    event_id: str  # a line that was empty has begun to count anew
    tried: int  # how often, with this time
    at_ms: int
    answer: Answer
    events: int = 1  # from that one on, which went together


def answer_record(bucket: int, line: str, of: Try) -> Outgoing:
    """The record of an answer that no batch has waited for: it wakes one."""
    told = {"bucket": bucket, "line": line, "try": [*of[:4], list(of.answer), of.events]}
    return Outgoing(wake_topic(STAGE), line.encode(), orjson.dumps(told), [])


def read_answer(value: bytes | None) -> tuple[int, str, Try] | None:
    """None: it is a wake without one."""
    told = orjson.loads(value or b"{}")
    if "try" not in told:
        return None
    number, event_id, tried, at_ms, answer, events = told["try"]
    of = Try(number, event_id, tried, at_ms, Answer(*answer), events)
    return told["bucket"], told["line"], of


def log_record(delivery: Delivery, of: Try) -> Outgoing:
    event, answer = delivery.event, of.answer
    told = {
        "hook": delivery.hook,
        "event_id": event.id,
        "entity_id": event.entity,
        "type": event.type,
        "try": of.tried,
        "at_ms": of.at_ms,
        "ms": answer.ms,
        "status": answer.status,
        "verdict": answer.verdict.value,
        "said": answer.said,
    }
    return Outgoing(DELIVERY_TOPIC, delivery.key, orjson.dumps(told), [])


def dead_letter(delivery: Delivery, tries: int, reason: str, detail: str) -> Outgoing:
    ours = (envelope.HOOK, envelope.TRIES, envelope.REPLAY)
    known = [header for header in delivery.headers if header[0] not in ours]
    # a letter that comes back is the same letter
    told = envelope.text(known, envelope.ORIGIN) if delivery.is_again else None
    origin = Position.parse(told) if told else delivery.place
    headers = envelope.failure_headers(known, STAGE, origin, reason, detail)
    headers += [(envelope.HOOK, delivery.hook.encode()), (envelope.TRIES, str(tries).encode())]
    letter = fitted(delivery.place, delivery.key, delivery.value, headers)
    return Outgoing(dead_letter_topic(STAGE), *letter)


def gate_value(oldest_ms: int, waiting: dict[str, int]) -> bytes:
    return orjson.dumps({"oldest_ms": oldest_ms, "waiting": waiting})


def read_gate(value: bytes) -> dict[str, Any]:
    return dict(orjson.loads(value))
