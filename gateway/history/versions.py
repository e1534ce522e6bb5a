"""Versions of a state as they were published: which was it when, what did each change. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from gateway.http.problems import Problem, retry_after
from shared.folding.snapshot import Facts
from shared.folding.told_state import told_state
from shared.model import Aggregate, Entity, Fields
from shared.timestamps import to_rfc3339

PLACE = r"[0-9]{1,18}\.[0-9]{1,18}"  # of a version, as `next` has it


class Version(NamedTuple):
    life: int  # versions begin again once an entity was forgotten
    version: int
    at_ms: int  # when it was published
    event_time_ms: int | None
    late: int
    clock_off: int
    deleted: bool
    state: str
    forgotten_ms: int | None

    @property
    def fields(self) -> Fields:
        fields: Fields = orjson.loads(self.state)
        return fields


class Around(NamedTuple):
    """What is kept about a version or a time: the last one up to it, the first one after it, and
    the newest of all."""

    last: Version | None
    then: Version | None
    newest: Version | None


class Known(NamedTuple):
    """What this node's own view knows: the newest version, and up to when it has read all there
    is."""

    version: int | None  # None: there is none
    caught_up_ms: int


def of_version(of: Entity | Aggregate, wanted: int, around: Around, known: Known) -> Version:
    """Problem where it was never to be seen, or is not stored yet."""
    last, then, newest = around
    if newest is not None and newest.forgotten_ms is not None and known.version is not None:
        raise _not_stored_yet(of)  # what is kept is of the life before
    if last is not None and last.version == wanted:
        return last
    if known.version is None or wanted > known.version:
        there_is = f"the newest is {known.version}" if known.version else "it has none now"
        raise Problem(404, "unknown_version", f"this {of.name} has no version {wanted}: {there_is}")
    if newest is None or newest.version < wanted:
        raise _not_stored_yet(of)
    if last is None:
        begins = f"what is kept of this {of.name} begins with version {then and then.version}"
        raise Problem(404, "unknown_version", f"version {wanted} is not kept: {begins}")
    raise Problem(
        404,
        "unknown_version",
        f"nobody has seen version {wanted} of this {of.name}: events that came together were "
        f"folded together, from version {last.version} to {then and then.version}",
    )


def at_time(of: Entity | Aggregate, at_ms: int, around: Around, known: Known) -> Version:
    last, then, newest = around
    if at_ms > known.caught_up_ms:
        raise Problem(
            503,
            "not_yet",
            f"what {of.name} is to be seen at {to_rfc3339(at_ms)} is not known yet: states were "
            f"read up to {to_rfc3339(known.caught_up_ms)}; ask again",
            headers=retry_after(1),
        )
    if then is None and not _is_complete(newest, known):
        raise _not_stored_yet(of)
    if last is None:
        begins = (
            f", or none is kept: its history begins at {to_rfc3339(then.at_ms)}" if then else ""
        )
        raise Problem(404, "unknown_id", f"no {of.name} had this id then{begins}")
    if last.forgotten_ms is not None and last.forgotten_ms <= at_ms:
        raise Problem(404, "unknown_id", f"no {of.name} had this id then: it had been deleted")
    return last


def _is_complete(newest: Version | None, known: Known) -> bool:
    """Whether all that was published up to now is stored."""
    if newest is None:
        return known.version is None
    if known.version is None:
        return newest.forgotten_ms is not None
    return newest.forgotten_ms is None and newest.version >= known.version


def _not_stored_yet(of: Entity | Aggregate) -> Problem:
    return Problem(
        503,
        "not_stored_yet",
        f"newer versions of this {of.name} were published than persist has stored; ask again, or "
        "look at GET /health for how far it is behind",
        headers=retry_after(1),
    )


def told(of: Entity | Aggregate, full_id: str, version: Version, then: Version | None) -> Fields:
    """As GET /state told it, and until when."""
    if version.deleted:
        raise Problem(404, "deleted", f"this {of.name} was deleted in version {version.version}")
    facts = Facts(version.fields, version.version, version.event_time_ms)
    clocks = {"late": version.late, "clock_off": version.clock_off}
    meta = {name: count for name, count in clocks.items() if count}
    until_ms = then.at_ms if then else version.forgotten_ms
    return {
        **told_state(of.name, full_id, version.at_ms, facts, meta),
        "until": None if until_ms is None else to_rfc3339(until_ms),
    }


def changes(
    newest_first: Sequence[Version], is_all: bool, field: str | None
) -> Iterator[tuple[Version, Fields | None]]:
    """Each with what it changed, or None where it did not change `field`. Without the first of all
    that are kept, the last one is there only for the one before it."""
    for number, version in enumerate(newest_first):
        older = newest_first[number + 1] if number + 1 < len(newest_first) else None
        if older is None and not is_all:
            return
        is_same_life = older is not None and older.life == version.life
        yield version, _entry(version, older if is_same_life else None, field)


def _entry(version: Version, before: Version | None, field: str | None) -> Fields | None:
    now = version.fields
    was = before.fields if before else {}
    changed = {name: value for name, value in now.items() if _differs(name, was, value)}
    removed = [name for name in was if name not in now]
    if field is not None and field not in changed and field not in removed:
        return None
    time_ms = version.event_time_ms
    return {
        "version": version.version,
        "updated_at": to_rfc3339(version.at_ms),
        "event_time": None if time_ms is None else to_rfc3339(time_ms),
        **({"deleted": True} if version.deleted else {"changed": changed}),
        **({"removed": removed} if removed and not version.deleted else {}),
        **({"forgotten_at": to_rfc3339(version.forgotten_ms)} if version.forgotten_ms else {}),
    }


def _differs(name: str, was: Fields, value: Any) -> bool:
    return name not in was or _as_text(was[name]) != _as_text(value)


def _as_text(value: Any) -> bytes:
    # in Python 1, 1.0 and True are the same
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def place(life: int, version: int) -> str:
    return f"{life}.{version}"


def read_place(text: str | None) -> tuple[int, int] | None:
    """Problem where it is none that an answer gave."""
    if text is None:
        return None
    if not re.fullmatch(PLACE, text):
        raise Problem(400, "bad_parameter", "next is what the page before gave as `next`")
    life, _, version = text.partition(".")
    return int(life), int(version)
