"""What a hook's server may have seen, said without any rule of the job's: a look at what was sent
and at what arrived."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Arrival(NamedTuple):
    entity: str
    event_id: str
    is_done: bool  # it was answered with a 2xx
    request: int | None = None  # where several came together


def faults(
    sent: Mapping[str, Sequence[str]], arrived: Sequence[Arrival], *, may_repeat: bool = True
) -> list[str]:
    """`sent`: by entity, in order."""
    found: list[str] = []
    for entity, ids in sent.items():
        own = [one for one in arrived if one.entity == entity]
        firsts = list(dict.fromkeys(one.event_id for one in own))
        if missing := [id_ for id_ in ids if not any(o.event_id == id_ and o.is_done for o in own)]:
            found.append(f"{entity}: {len(missing)} never got through, the first is {missing[0]}")
        if firsts != [id_ for id_ in ids if id_ in firsts]:
            found.append(f"{entity}: out of order: {firsts}")
        seen: set[str] = set()
        through: set[str] = set()
        request, together = None, set[str]()
        for number, one in enumerate(own):
            before = ids[: ids.index(one.event_id)] if one.event_id in ids else ()
            if one.request is None or one.request != request:
                request, together = one.request, set()
            if one.event_id not in seen and not (through | together).issuperset(before):
                found.append(f"{entity}: {one.event_id} came before those ahead of it")
            if one.event_id in seen and not may_repeat:
                found.append(f"{entity}: {one.event_id} came twice")
            seen.add(one.event_id)
            together.add(one.event_id)
            if one.is_done:
                through.add(one.event_id)
            if number == len(own) - 1 and (strange := seen.difference(ids)):
                found.append(f"{entity}: {sorted(strange)} was never sent")
    others = {one.entity for one in arrived}.difference(sent)
    return [*found, *(f"{other} has no event" for other in sorted(others))]
