"""An entity folded anew from its event log, while fold goes on. Pure.

fold meets what it cannot take in by itself: the correction of an event that it has folded, or an
older one that was sent on again. It asks for a refold up to where it has read, and holds what the
entity gets meanwhile. The refold is the fold of the same log in the order in which it should have
been: each event once, in its highest revision, at the place where it first stood or belonged.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import orjson

from shared.events.envelope import EventRecord, Position, event_fields, event_of
from shared.folding import deadlines, emissions, snapshot
from shared.folding.applier import Applied, Applier, Parked
from shared.folding.snapshot import Snapshot, id_digest

# of one entity, while its refold is under way; what is beyond is left to another refold
HELD_MAX = 5_000


class Request(NamedTuple):
    entity: str
    id: str
    positions: Mapping[str, int]  # event topic/partition -> the last offset that is to be in it
    asked: Mapping[str, int]  # event id -> revision, of what it was asked for
    # event topic/partition -> offset; what follows from later events was not emitted yet
    emitted_to: Mapping[str, int] | None = None

    @property
    def key(self) -> bytes:
        return f"{self.entity}:{self.id}".encode()


class RefoldAnswer(NamedTuple):
    entity: str
    id: str
    snapshot: Snapshot
    parked: Sequence[Parked]  # of what is new to the state, what the fold did not take
    follows: Sequence[EventRecord]  # from what is new to the state


def request_value(request: Request) -> bytes:
    return orjson.dumps(request._asdict())


def read_request(value: bytes) -> Request:
    """ValueError where it is none."""
    try:
        return Request(**orjson.loads(value))
    except TypeError as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def answer_value(answer: RefoldAnswer, fold_fingerprint: str) -> bytes:
    encoded = snapshot.encode(answer.snapshot, fold_fingerprint)
    parked = [(*p[1:], list(p.record.position), event_fields(p.record)) for p in answer.parked]
    follows = [event_fields(record) for record in answer.follows]
    fields = {"entity": answer.entity, "id": answer.id, "parked": parked, "follows": follows}
    return orjson.dumps({**fields, "snapshot": orjson.Fragment(encoded)})


def read_answer(value: bytes) -> tuple[RefoldAnswer, str]:
    """And the fold that has given it; ValueError where it is none."""
    try:
        fields = orjson.loads(value)
        found, fold = snapshot.decode_with_fold(orjson.dumps(fields["snapshot"]))
        parked = [
            Parked(event_of(Position(*place), event), reason, detail)
            for reason, detail, place, event in fields["parked"]
        ]
        # answers of earlier versions have it in the snapshot
        told = fields.get("follows", fields["snapshot"][snapshot.META].get("emissions", []))
        follows = [event_of(Position(*e["origin"]), e) for e in told]
        return RefoldAnswer(fields["entity"], fields["id"], found, parked, follows), fold
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def refold(applier: Applier, request: Request, log: Iterable[EventRecord]) -> RefoldAnswer:
    """`log`: all records of the entity up to the request's positions."""
    now = Snapshot(applier.entity.initial(request.id), positions=dict(request.positions))
    parked: list[Parked] = []
    follows: list[EventRecord] = []
    for candidates in in_effect(log):
        emitted: list[EventRecord] = []
        failure = None
        for record in candidates:
            failure = applier.fold(now, record, applier.mark(record), id_digest(record.id), emitted)
            if failure is None:
                break
        if record.id in request.asked or _is_new(record, request):
            # what followed from the others was emitted long ago
            follows += [one._replace(revision=record.revision) for one in emitted]
            parked += [failure] if failure else []
    return RefoldAnswer(request.entity, request.id, now, parked, follows)


def _is_new(record: EventRecord, request: Request) -> bool:
    """It came while the entity was folded anew, was held, and then left to this refold."""
    if request.emitted_to is None:
        return False
    topic, partition, offset = record.position
    return offset > request.emitted_to.get(f"{topic}/{partition}", -1)


def in_effect(log: Iterable[EventRecord]) -> list[Sequence[EventRecord]]:
    """Each event, in the order in which they are folded; of one that was sent on again, the next
    ones are for the case that the fold does not take the first."""
    first: dict[str, EventRecord] = {}
    writings: dict[str, list[EventRecord]] = defaultdict(list)
    for record in _merged(log):
        first.setdefault(record.id, record)
        writings[record.id].append(record)
    order = _with_older_ones_in_place(first.values())
    return [_candidates(record, writings[record.id]) for record in order]


def _candidates(first: EventRecord, writings: Sequence[EventRecord]) -> Sequence[EventRecord]:
    """At the place of the first, and as much a first attempt as that."""
    highest = max(record.revision for record in writings)
    by_attempt: dict[int, EventRecord] = {}
    for record in writings:
        if record.revision == highest:
            by_attempt.setdefault(record.attempt, record)
    return [
        first._replace(
            position=record.position,
            type=record.type,
            time_ms=record.time_ms,
            data=record.data,
            revision=highest,
        )
        for record in by_attempt.values()
    ]


def _merged(log: Iterable[EventRecord]) -> Iterator[EventRecord]:
    """In log order per log; logs have no order among each other, so about as they arrived."""
    reached: dict[tuple[str, int], int] = {}
    placed = []
    for record in sorted(log):
        at = record.position[:2]
        reached[at] = max(record.arrived_ms, reached.get(at, record.arrived_ms))
        placed.append((reached[at], record.position, record))
    placed.sort(key=lambda one: one[:2])
    return (record for _, _, record in placed)


def _with_older_ones_in_place(order: Iterable[EventRecord]) -> list[EventRecord]:
    """What was sent on again stands before what came after it at their common origin, as if it had
    not been held up."""
    placed: list[EventRecord] = []
    newest: dict[tuple[str, str, int], tuple[int, int]] = {}
    for record in order:
        if record.cause is None:
            line, place = _line(record), (record.origin.offset, record.part)
            if record.attempt and place < newest.get(line, (-1, 0)):
                placed.insert(_first_younger(placed, line, place), record)
                continue
            newest[line] = max(place, newest.get(line, (-1, 0)))
        placed.append(record)
    return placed


def _line(record: EventRecord) -> tuple[str, str, int]:
    """What comes in the order of its origin: one ingest partition's events on one topic."""
    return record.position.topic, record.origin.topic, record.origin.partition


def _first_younger(
    placed: Sequence[EventRecord], line: tuple[str, str, int], place: tuple[int, int]
) -> int:
    for number, one in enumerate(placed):
        is_younger = (one.origin.offset, one.part) > place
        if one.cause is None and _line(one) == line and is_younger:
            return number
    raise AssertionError


def taken(
    applier: Applier, now: Snapshot, held: Sequence[EventRecord], answer: RefoldAnswer
) -> Applied | None:
    """The entity as it was refolded, with what it got meanwhile; None where the answer is not to
    what it asks for now."""
    if not now.asked or any(
        answer.snapshot.positions.get(log, -1) < offset for log, offset in now.positions.items()
    ):
        return None
    new = replace(answer.snapshot, version=now.version + 1, behind=now.behind)
    follows = [*deadlines.at_version(answer.follows, applier.actions, new.version)]
    applied = applier.apply(answer.id, new, held)
    emitted = [*follows, *applied.emitted]
    new.emissions = emissions.last(emitted)
    return applied._replace(snapshot=new, emitted=emitted, parked=[*answer.parked, *applied.parked])


def give_up(now: Snapshot, held: Sequence[EventRecord]) -> None:
    """What is held: a refold up to there has it, too."""
    _skip(now, {f"{at.topic}/{at.partition}": at.offset + 1 for at, *_ in sorted(held)})


def start_from(now: Snapshot, starts: Mapping[str, int]) -> None:
    """Skips what was before these starts, for a state that asks for a refold in a job which begins
    to read there and has lost what it held. `starts`: event topic/partition -> the next offset."""
    if now.asked:
        _skip(now, starts)


def _skip(now: Snapshot, starts: Mapping[str, int]) -> None:
    for log, start in starts.items():
        now.positions[log] = max(start - 1, now.positions.get(log, -1))


def request_of(entity: str, entity_id: str, now: Snapshot) -> Request:
    return Request(entity, entity_id, dict(now.positions), dict(now.asked), now.emitted_to)
