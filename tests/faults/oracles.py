"""What must hold between what clients were told and what is in the topic. Pure.

Each gives the violations that it finds; none is well.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import pairwise
from typing import NamedTuple

from tests.faults.client_answers import Sent, Told

Place = tuple[int, int]  # partition and offset


class Found(NamedTuple):
    """A record of the topic: b"<entity> <number> …" under its entity."""

    key: bytes
    value: bytes

    @property
    def name(self) -> tuple[str, int]:
        entity, number, _ = self.value.split(b" ", 2)
        return entity.decode(), int(number)


Topic = Mapping[Place, Found]


def violations(sent: Iterable[Sent], topic: Topic) -> list[str]:
    sent = list(sent)
    return [
        *lost(sent, topic),
        *phantoms(sent, topic),
        *misplaced(sent, topic),
        *inverted(sent, topic),
    ]


def lost(sent: Iterable[Sent], topic: Topic) -> Iterator[str]:
    """What was accepted is there, byte for byte, under its entity."""
    there = {(found.key, sha256(found.value).hexdigest()) for found in topic.values()}
    for one in sent:
        if one.is_accepted and (one.entity.encode(), one.digest) not in there:
            yield f"lost: {one}"


def phantoms(sent: Iterable[Sent], topic: Topic) -> Iterator[str]:
    """What was refused for certain is not there, and nothing that was never sent."""
    known = {one.digest: one for one in sent}
    for place, found in topic.items():
        one = known.get(sha256(found.value).hexdigest())
        if one is None:
            yield f"never sent: {place} {found.value[:60]!r}"
        elif one.told is Told.DEFINITE:
            yield f"refused as definite, and written: {place} {one}"


def misplaced(sent: Iterable[Sent], topic: Topic) -> Iterator[str]:
    """At each offset that a receipt names is that payload, and no two receipts name one offset."""
    told: dict[Place, Sent] = {}
    for one in sent:
        if one.told is not Told.WRITTEN:
            continue
        assert one.place is not None
        if one.place in told:
            yield f"one place, two receipts: {one} and {told[one.place]}"
        told[one.place] = one
        found = topic.get(one.place)
        if found is None or sha256(found.value).hexdigest() != one.digest:
            yield f"not at its place: {one}"


def inverted(sent: Iterable[Sent], topic: Topic) -> Iterator[str]:
    """The first copies of what was accepted of an entity are in the order of the answers, which is
    that of the numbers: a client waits for its answer."""
    firsts = _first_places(topic)
    by_entity: defaultdict[str, list[Sent]] = defaultdict(list)
    for one in sent:
        if one.is_accepted and (one.entity, one.number) in firsts:
            by_entity[one.entity].append(one)
    for own in by_entity.values():
        own.sort(key=lambda one: one.number)
        for earlier, later in pairwise(own):
            a, b = (firsts[one.entity, one.number] for one in (earlier, later))
            if a > b:
                yield f"overtaken: {earlier} at {a} by {later} at {b}"


def doubled(topic: Topic) -> int:
    """How many copies there are beyond the first ones; allowed, and counted."""
    return len(topic) - len(_first_places(topic))


def _first_places(topic: Topic) -> dict[tuple[str, int], Place]:
    firsts: dict[tuple[str, int], Place] = {}
    for place in sorted(topic):
        firsts.setdefault(topic[place].name, place)
    return firsts
