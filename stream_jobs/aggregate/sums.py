"""Latest shares of members -> parts -> totals. Pure.

In two steps, so that one aggregate of a million members keeps no worker waiting: the members of one
hash bucket add up to a part, the parts of an aggregate to its total. Whatever changes, its part is
added up anew from the latest shares, so a move or a correction takes away what it gave before.
"""

import re
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, NamedTuple

from shared.errors import AddFailedError
from shared.folding import snapshot
from shared.ids import full_id_within, tenant_of
from shared.model import Aggregate, Fields, Share
from shared.user_code import describe_error

_AGGREGATE_ID = re.compile(r"[^/\x00-\x1f\x7f]{1,200}")
_AGGREGATE_ID_RULE = "text of 1 to 200 characters, none of them / or a control character"


class MemberState(NamedTuple):
    """A member's snapshot. Nothing but the id: it is deleted."""

    id: str
    version: int | None
    event_time_ms: int | None
    state: Fields | None
    deleted: bool = False  # it has no share; its version still guards


class Latest(NamedTuple):
    """The latest share of a member. Where it has none its version stays, as a guard."""

    version: int
    of: str | None
    part: "Part"


class Part(NamedTuple):
    event_time_ms: int | None
    fields: Fields


class Total(NamedTuple):
    version: int
    parts: dict[str, Part]  # by the bucket that they come from


Members = dict[str, Latest]


def member_state(key: bytes | None, value: bytes | None) -> MemberState:
    """ValueError where the record is no snapshot."""
    if key is None:
        raise ValueError("the key is the member's id, this record has none")
    member_id = key.decode()
    if value is None:
        return MemberState(member_id, None, None, None)
    facts = snapshot.read_facts(value)
    return MemberState(member_id, *facts[1:3], facts.state, facts.deleted)


def take(aggregate: Aggregate, members: Members, member: MemberState) -> set[str]:
    """Puts the member's share into `members`: the ids of the aggregates that this changes."""
    known = members.get(member.id)
    if member.state is None or member.version is None:
        members.pop(member.id, None)
        return {known.of} if known is not None and known.of is not None else set()
    if known is not None and member.version <= known.version:
        return set()
    # what a share takes out of a state, the next aggregate still needs
    share = None if member.deleted else aggregate.share(dict(member.state))
    if share is None:
        latest = Latest(member.version, None, Part(None, {}))
    else:
        of = _id_of(share, tenant_of(member.id))
        latest = Latest(member.version, of, Part(member.event_time_ms, share.fields))
    members[member.id] = latest
    if known is not None and (known.of, known.part.fields) == (latest.of, latest.part.fields):
        return set()
    return {row.of for row in (known, latest) if row is not None and row.of is not None}


def leave(members: Members, member: MemberState) -> set[str]:
    """Where the share of a newer state cannot be taken, the old one is no longer true."""
    known = members.get(member.id)
    if member.version is None or (known is not None and member.version <= known.version):
        return set()
    members[member.id] = Latest(member.version, None, Part(None, {}))
    return {known.of} if known is not None and known.of is not None else set()


def _id_of(share: Share, tenant: str) -> str:
    """Two tenants' aggregates are two, whatever their members call them."""
    snapshot.refuse_what_cannot_be_written(share.fields, "a share has fields")
    if isinstance(share.of, str):
        of = full_id_within(tenant, share.of)
        own = of.removeprefix(f"{tenant}/") if tenant else of
        if _AGGREGATE_ID.fullmatch(own):
            return of
    raise ValueError(f"a share is of an id: {_AGGREGATE_ID_RULE}")


def parts(
    aggregate: Aggregate, members: Members, ids: Iterable[str]
) -> Iterator[tuple[str, Part | None]]:
    """What the members of this bucket add up to; None where the last one has left."""
    shares: dict[str, list[Part]] = {of: [] for of in ids}
    for latest in members.values():
        if latest.of in shares:
            shares[latest.of].append(latest.part)
    for of, own in shares.items():
        yield of, _sum(aggregate, own)


def renew(total: Total, changes: Iterable[tuple[str, Part | None]]) -> Total:
    """`changes`: bucket and its part now."""
    now = dict(total.parts)
    for bucket, part in changes:
        if part is None:
            now.pop(bucket, None)
        else:
            now[bucket] = part
    return Total(total.version + 1, now)


def state_of(aggregate: Aggregate, aggregate_id: str, total: Total) -> tuple[int | None, Fields]:
    """Event time and state."""
    whole = _sum(aggregate, total.parts.values())
    try:
        state = aggregate.total(aggregate_id, whole.fields if whole else None)
        snapshot.refuse_what_cannot_be_written(state, "total returns the state")
    except Exception as error:
        raise _blamed(aggregate, error) from error
    return whole.event_time_ms if whole else None, state


def _sum(aggregate: Aggregate, parts: Iterable[Part]) -> Part | None:
    own = list(parts)
    if not own:
        return None
    times = [part.event_time_ms for part in own if part.event_time_ms is not None]
    try:
        fields = reduce(aggregate.add, (part.fields for part in own))
        snapshot.refuse_what_cannot_be_written(fields, "add returns what both are")
    except Exception as error:
        raise _blamed(aggregate, error) from error
    return Part(max(times, default=None), fields)


def _blamed(aggregate: Aggregate, error: Exception) -> AddFailedError:
    return AddFailedError(
        f"aggregate {aggregate.name} cannot be added up: {describe_error(error, aggregate.add)}; "
        "nothing is lost: mend its code and start the job again"
    )


def members_from(stored: dict[str, Any]) -> Members:
    return {
        member_id: Latest(version, of, Part(*part))
        for member_id, (version, of, part) in stored.items()
    }


def part_from(stored: Any) -> Part | None:
    return Part(*stored) if stored is not None else None


def total_from(stored: Any) -> Total:
    version, stored_parts = stored
    return Total(version, {bucket: Part(*part) for bucket, part in stored_parts.items()})
