"""The books of a demo: what was sent and answered against what has come out. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from local_stack.demo.fleet import BROKEN, DeviceMessage, MessageKind
from local_stack.demo.follower import PayloadFates
from local_stack.demo.gateway_client import PostAnswer


@dataclass
class SentPayloads:
    """What the gateway was sent, and what it said."""

    posts: int = 0
    accepted: int = 0
    repeats: int = 0  # accepted again under the id of the first time
    refused: Counter[str] = field(default_factory=Counter)
    kinds: Counter[MessageKind] = field(default_factory=Counter)
    ids: dict[str, str] = field(default_factory=dict)  # by Idempotency-Key

    def note(self, message: DeviceMessage, answer: PostAnswer) -> None:
        self.posts += 1
        if not answer.accepted or answer.id is None:
            self.refused[answer.said] += 1
            return
        self.accepted += 1
        if message.key not in self.ids:
            self.ids[message.key] = answer.id
            self.kinds[message.kind] += 1
        elif self.ids[message.key] == answer.id:
            self.repeats += 1

    @property
    def broken(self) -> int:
        return sum(self.kinds[kind] for kind in BROKEN)


@dataclass(frozen=True)
class Balance:
    sent: int
    refused: dict[str, int]
    accepted: int
    distinct: int
    doubled: int
    events: int
    parked: dict[str, int]  # by reason
    waiting: dict[str, int]
    completed: int
    parked_as_events: int  # a later job has refused what was an event already

    @property
    def adds_up(self) -> bool:
        out = self.events + sum(self.parked.values()) + sum(self.waiting.values())
        return self.accepted == self.distinct + self.doubled and self.distinct == out

    @property
    def all_through(self) -> bool:
        return self.adds_up and self.completed + self.parked_as_events >= self.events

    def as_document(self) -> dict[str, Any]:
        return {**asdict(self), "adds_up": self.adds_up, "all_through": self.all_through}


def balance(sent: SentPayloads, seen: PayloadFates) -> Balance:
    ids = set(sent.ids.values())
    events = ids & seen.events
    parked = ids & seen.parked.keys()
    waiting = (ids & seen.waiting.keys()) - events - parked
    return Balance(
        sent=sent.posts,
        refused=dict(sent.refused),
        accepted=sent.accepted,
        distinct=len(ids),
        doubled=sent.repeats,
        events=len(events),
        parked=_by_reason(parked - events, seen.parked),
        waiting=_by_reason(waiting, seen.waiting),
        completed=len(ids & seen.completed),
        parked_as_events=len(parked & events),
    )


def _by_reason(ids: set[str], reasons: Mapping[str, str]) -> dict[str, int]:
    return dict(Counter(reasons[payload_id] for payload_id in ids).most_common())
