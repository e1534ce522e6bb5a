"""Event ids, fresh and sortable (UUIDv7) or derived from what the sender says; the rule of entity
ids, and the one place where a tenant becomes part of one."""

import os
import re
import time
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from random import Random

# ids have to differ, not to be secret: seeded once, it takes a third of the time of asking the
# system each time
_random = Random()
# the two bits of a UUID's variant, before two of a random digit's
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
os.register_at_fork(after_in_child=_random.seed)

ENTITY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
ENTITY_ID_RULE = (
    "an entity id has 1 to 128 characters out of A-Z a-z 0-9 . _ : @ - and begins with a letter or "
    "a digit"
)
TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
NO_TENANT = ""  # whoever has no name: all of a stack that does not ask who is asking
# what an entity is known by behind the gateway; no path can name it, for no ENTITY_ID has a slash
FULL_ID = re.compile(f"(?:{TENANT.pattern}/)?{ENTITY_ID.pattern}")
FULL_ID_RULE = f"{ENTITY_ID_RULE}; before it may stand its tenant and a slash"


def full_id(tenant: str, own_id: str) -> str:
    return f"{tenant}/{own_id}" if tenant else own_id


def tenant_of(full: str) -> str:
    return full.partition("/")[0] if "/" in full else NO_TENANT


def full_id_within(tenant: str, given: str) -> str:
    """An id that a domain's own code made, kept within the tenant whose data it was made from. What
    that code took from an id that it was given has the tenant already."""
    return given if tenant and given.startswith(f"{tenant}/") else full_id(tenant, given)


def fresh_event_id() -> str:
    """A UUIDv7: 48 bits of time, 74 random bits."""
    digits = f"{_random.getrandbits(74):019x}"
    begin = _begin(time.time_ns() // 1_000_000)
    return f"{begin}-7{digits[1:4]}-{_VARIANT[digits[0]]}{digits[4:7]}-{digits[7:]}"


def fresh_event_ids() -> Iterator[str]:
    """For what comes together, without end: UUIDv7s that sort as they were taken. 48 bits of time,
    12 that count, and 62 random bits, which all that are counted have in common."""
    time_ms = 0
    while True:
        digits = f"{_random.getrandbits(62):016x}"
        time_ms = max(time.time_ns() // 1_000_000, time_ms + 1)
        begin = _begin(time_ms)
        end = f"{_VARIANT[digits[0]]}{digits[1:4]}-{digits[4:]}"
        for count in range(4096):
            yield f"{begin}-7{count:03x}-{end}"


def completion_id(event_id: str, revision: int = 0) -> str:
    """The id of the word that an event is a row: a correction has one of its own, or whoever
    dedupes by id would never hear of it."""
    return derived_event_id("completion", event_id, *([str(revision)] if revision else []))


def derived_event_id(*parts: str) -> str:
    """The same parts give the same id at whichever gateway or job: a UUIDv8 from a hash."""
    # each part goes in with its length, so that no two lists of parts run together
    framed: list[bytes] = []
    for raw in map(str.encode, parts):
        framed.append(len(raw).to_bytes(4))
        framed.append(raw)
    digits = sha256(b"".join(framed)).hexdigest()
    # by hand: the class of the standard library takes four times as long, at each POST
    variant = _VARIANT[digits[16]]
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def part_id(payload_id: str, part: int) -> str:
    """The id of an event that is one of several of its payload. The first one has the payload's
    own."""
    return f"{payload_id}#{part}" if part else payload_id


def line_alone(entity_id: str, its_id: str) -> str:
    """The line of what waits without order; those of an entity that has one are called as itself.
    A newline stands in no entity's id."""
    return f"{entity_id}\n{its_id}"


@lru_cache(4)
def _begin(time_ms: int) -> str:
    digits = f"{time_ms:012x}"
    return f"{digits[:8]}-{digits[8:]}"
