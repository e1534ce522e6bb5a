"""The snapshot record: an entity's state, and what that state contains.

As bytes it is one JSON object: the state's own fields at the top level, beside them `_meta`.
"""

from binascii import b2a_base64
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from shared.events.envelope import EventRecord, Position, event_fields, event_of
from shared.folding.bursts import DIGEST_BYTES, Bursts, holds
from shared.model import Fields
from shared.timestamps import is_time_ms
from shared.topic_names import RECORD_BYTES_MAX

META = "_meta"
_FIELDS_BYTES_MAX = RECORD_BYTES_MAX - 512 * 1024  # the rest is for what stands in `_meta`

# of `_meta`, what stands there only where there is something to say
_AT_TIMES = (
    *("parked", "corrections", "mark_parts", "retried_marks", "asked"),
    *("deleted", "late", "clock_off", "behind"),
)
_values_at_times = attrgetter(*_AT_TIMES)
_KEYS_AT_ALL_TIMES = 7

# time, arrival and origin offset of the newest event of a type
Newest = tuple[int, int, int]


@dataclass(slots=True)
class Snapshot:
    state: Fields
    version: int = 0
    event_time_ms: int | None = None
    newest: dict[str, Newest] = field(default_factory=dict)
    # event type -> digests of its last distinct ids, oldest first, in one string: a repeat is found
    # by one search, a new id costs one copy. By type, for types come in no order: what one of them
    # has caught up with must not push out the ids of another
    rings: dict[str, str] = field(default_factory=dict)
    bursts: Bursts | None = None
    # event topic/partition -> offset of the last record that was looked at
    positions: dict[str, int] = field(default_factory=dict)
    # event type:ingest topic/partition -> offset of the last first-attempt payload that was folded
    marks: dict[str, int] = field(default_factory=dict)
    # where that payload became several events: which of them was the last, if not the first
    mark_parts: dict[str, int] = field(default_factory=dict)
    # the same of payloads that were sent on again
    retried_marks: dict[str, int] = field(default_factory=dict)
    parked: list[str] = field(default_factory=list)
    # of its last batch: a job that starts from this snapshot publishes them again
    emissions: list[EventRecord] = field(default_factory=list)
    # event id -> revision, of the last corrections that are in the state
    corrections: dict[str, int] = field(default_factory=dict)
    # event id -> revision, of what was read and is not in the state: a refold is under way that has
    # all up to `positions`. Revision 0: an older event that was sent on again
    asked: dict[str, int] = field(default_factory=dict)
    # while it is asked for: event topic/partition -> offset up to which what follows was emitted
    emitted_to: dict[str, int] | None = None
    arrived_ms: int | None = None  # the newest arrival that was folded
    # arrival of the last event that deleted it: what arrived until then is of a life that is over
    ended_ms: int | None = None
    deleted: bool = False
    late: int = 0  # events that came after a newer one of their type
    clock_off: int = 0  # events whose own time was not to be believed
    # in a job that folds anew: event topic/partition -> offset up to which the published snapshot
    # is ahead of this one
    behind: dict[str, int] = field(default_factory=dict)
    # not kept: type and arrival of the last event that was remembered, and how many came with it
    moment: tuple[str, int] = field(default=("", -1), compare=False)
    in_moment: int = field(default=0, compare=False)

    def knows(self, digest: str) -> bool:
        """Whether an event of this id is among the last ones."""
        for ring in self.rings.values():  # no generator: for each event, it would cost more
            if holds(ring, digest):
                return True
        return self.bursts is not None and self.bursts.holds(digest)


def id_digest(event_id: str) -> str:
    digest = blake2b(event_id.encode(), digest_size=DIGEST_BYTES).digest()
    return b2a_base64(digest, newline=False).decode()


def encode(snapshot: Snapshot, fold_fingerprint: str) -> bytes:
    meta: Fields = {
        "version": snapshot.version,
        "event_time_ms": snapshot.event_time_ms,
        "newest": snapshot.newest,
        "rings": snapshot.rings,
        "positions": snapshot.positions,
        "marks": snapshot.marks,
        "fold": fold_fingerprint,
    }
    if snapshot.arrived_ms is not None:
        meta["arrived_ms"] = snapshot.arrived_ms
    if any(values := _values_at_times(snapshot)):
        meta |= {name: value for name, value in zip(_AT_TIMES, values, strict=True) if value}
    if snapshot.ended_ms is not None:
        meta["ended_ms"] = snapshot.ended_ms
    if snapshot.bursts is not None and (bursts := snapshot.bursts.told()):
        meta["bursts"] = bursts
    if snapshot.emissions:
        meta["emissions"] = [event_fields(record) for record in snapshot.emissions]
    if snapshot.asked and snapshot.emitted_to is not None:
        meta["emitted_to"] = snapshot.emitted_to
    return orjson.dumps({**snapshot.state, META: meta})


def encode_total(state: Fields, version: int, event_time_ms: int | None, fingerprint: str) -> bytes:
    """The snapshot of an aggregate: what is in it is said by its members' snapshots, not by this
    one."""
    meta = {"version": version, "event_time_ms": event_time_ms, "fold": fingerprint}
    return orjson.dumps({**state, META: meta})


def refuse_what_cannot_be_written(fields: Fields, rule: str) -> None:
    """Asked before the fields go anywhere: a record that cannot be made, or that its topic would
    refuse, stops the job that writes it, and with it everybody's."""
    if not isinstance(fields, dict):
        raise TypeError(f"{rule}, a dict, not {type(fields).__name__}")
    size_bytes = len(orjson.dumps(fields))
    if size_bytes > _FIELDS_BYTES_MAX:
        raise ValueError(f"{size_bytes} bytes are too many, {_FIELDS_BYTES_MAX} may be")


class Facts(NamedTuple):
    """What every snapshot has, an aggregate's too."""

    state: Fields
    version: int
    event_time_ms: int | None
    deleted: bool = False


def read_facts(raw: bytes) -> Facts:
    """ValueError where it is no snapshot; whoever may have written it."""
    return read_facts_with_meta(raw)[0]


def read_facts_with_meta(raw: bytes) -> tuple[Facts, Fields]:
    """And all that it says of itself."""
    try:
        state: Fields = orjson.loads(raw)
        meta: Fields = state.pop(META)
        deleted = meta.get("deleted") is True
        facts = Facts(state, meta["version"], meta["event_time_ms"], deleted)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if type(facts.version) is not int:
        raise ValueError("the version is no whole number")
    if facts.event_time_ms is not None and not is_time_ms(facts.event_time_ms):
        raise ValueError("the event time is no number of milliseconds")
    return facts, meta


def decode(raw: bytes) -> Snapshot:
    return decode_with_fold(raw)[0]


def decode_with_fold(raw: bytes) -> tuple[Snapshot, str]:
    """And the fingerprint of the fold that made it."""
    state: Fields = orjson.loads(raw)
    meta: dict[str, Any] = state.pop(META)
    return _snapshot(state, meta), meta["fold"]


def _snapshot(state: Fields, meta: dict[str, Any]) -> Snapshot:
    # most have none, and there are many
    has_more = len(meta) - ("arrived_ms" in meta) > _KEYS_AT_ALL_TIMES
    more = (*_AT_TIMES, "ended_ms") if has_more else ()
    return Snapshot(
        state=state,
        version=meta["version"],
        event_time_ms=meta["event_time_ms"],
        newest={kind: (t, a, o) for kind, (t, a, o) in meta["newest"].items()},
        # it was one for all types once
        rings=meta["rings"] if "rings" in meta else dict.fromkeys(meta["newest"], meta["ring"]),
        bursts=Bursts(meta["bursts"]) if "bursts" in meta else None,
        positions=meta["positions"],
        marks=meta["marks"],
        emissions=[event_of(Position(*e["origin"]), e) for e in meta.get("emissions", ())],
        emitted_to=meta.get("emitted_to"),
        arrived_ms=meta.get("arrived_ms"),
        **{name: meta[name] for name in more if name in meta},
    )
