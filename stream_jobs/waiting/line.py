"""The payloads of an entity that wait, and what a batch of retry does for them, by the rules of
`protocol.py`. Pure."""

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from shared.events.envelope import Position
from shared.retry_policy import RetryPolicy
from stream_jobs.waiting.protocol import LINE_FULL, Partition

AT_ONCE = 0  # as a time that has passed


class Passed(NamedTuple):
    """It became what it should, which has to be written."""


class Missing(NamedTuple):
    """It waits; for a row of master data where one is named."""

    reason: str
    detail: str
    row: str | None


class Refused(NamedTuple):
    reason: str
    detail: str


Outcome = Passed | Missing | Refused


@dataclass(slots=True)
class Entry:
    """A payload in a line."""

    place: Position
    event_id: str
    read_at: Position  # by enrich: where it came again, another one
    arrived_ms: int  # when it first came
    waits_since_ms: int
    in_lane: tuple[int, int] = (0, 0)  # partition and offset there
    attempt: int = 0  # how often it was sent again by hand
    revision: int = 0
    tries: int = 0
    reason: str = ""  # of the last try
    detail: str = ""
    row: str | None = None  # what it waits for
    due_ms: int = AT_ONCE
    given_up_in: int | None = None  # the batch
    parked: bool = False  # and those behind it wait
    taken_ms: int | None = None  # by the lane's clock; earlier versions wrote none

    @property
    def ident(self) -> tuple[Position, int]:
        return self.place, self.revision

    @property
    def counts_from_ms(self) -> int:
        return self.waits_since_ms if self.taken_ms is None else self.taken_ms


class Told(NamedTuple):
    """What an open gate says of its line."""

    payloads: int  # to a sixteenth: not each one that joins a long line is worth a record
    since_ms: int
    origin: str  # of the first of them, and why that waits
    reason: str
    detail: str
    needs: Mapping[str, int]  # of each partition of the lane nothing before that
    full: bool = False  # what comes beyond is parked

    def is_news_to(self, before: "Told | None") -> bool:
        if before is None or self._replace(payloads=before.payloads) != before:
            return True
        return abs(self.payloads - before.payloads) * 16 > before.payloads


@dataclass(slots=True)
class Line:
    entries: dict[tuple[Position, int], Entry] = field(default_factory=dict)
    told: Told | None = None
    emptied_in: int | None = None
    closed: bool = False
    _order: list[Entry] | None = field(default=None, repr=False, compare=False)

    def take(self, entry: Entry) -> bool:
        """False for a copy of what it has. What was sent again takes the place of what it was."""
        known = self.entries.get(entry.ident)
        if known is not None and entry.attempt <= known.attempt:
            return False
        self.entries[entry.ident] = entry
        self._order = None
        self.emptied_in = None
        return True

    def discard(self, place: Position, attempt: int) -> list[Entry]:
        """What was parked, and shall not come again."""
        entries = self.entries.values()
        found = [one for one in entries if one.place == place and one.attempt < attempt]
        for entry in found:
            self.remove(entry)
        return found

    def remove(self, entry: Entry) -> None:
        del self.entries[entry.ident]
        self._order = None

    def in_order(self) -> list[Entry]:
        """As they arrived; within a partition by its log, whatever its clock did."""
        if self._order is None:
            self._order = self._sorted()
        return self._order

    def _sorted(self) -> list[Entry]:
        latest: dict[Partition, int] = {}
        order = []
        for ident in sorted(self.entries):
            entry = self.entries[ident]
            at = entry.place.topic, entry.place.partition
            latest[at] = max(entry.arrived_ms, latest.get(at, 0))
            order.append((latest[at], ident))
        return [self.entries[ident] for _, ident in sorted(order)]

    def too_many(self, most: int) -> list[Entry]:
        """The last ones; of what is given up already none counts."""
        if len(self.entries) <= most:
            return []
        return [entry for entry in self.in_order() if entry.given_up_in is None][most:]

    def next_look(self, policy: RetryPolicy) -> int | None:
        """When it is to be served again at the latest, by the lane's clock; None: not before
        something comes."""
        head = next(iter(self.in_order()), None)
        if head is None or self._has_to_park(policy) or not (head.parked or head.tries):
            return AT_ONCE
        if head.parked:
            return None
        too_old_ms = head.counts_from_ms + int(policy.age_max_s * 1000)
        return too_old_ms if head.row is not None else min(head.due_ms, too_old_ms)

    def _has_to_park(self, policy: RetryPolicy) -> bool:
        is_noted = any(one.given_up_in is not None and not one.parked for one in self.in_order())
        return is_noted or bool(self.too_many(policy.line_max))

    def needs(self) -> dict[str, int]:
        needs: dict[str, int] = {}
        for partition, offset in (entry.in_lane for entry in self.entries.values()):
            needs[str(partition)] = min(offset, needs.get(str(partition), offset))
        return needs

    def tells(self, needs: Mapping[str, int], policy: RetryPolicy) -> Told:
        head, entries = self.in_order()[0], self.entries.values()
        return Told(
            len(entries),
            min(entry.waits_since_ms for entry in entries),
            str(head.place),
            head.reason,
            head.detail,
            needs,
            len(entries) >= policy.line_max,
        )

    def rows(self) -> set[str]:
        """With each of them that comes it is to be served, too."""
        return {entry.row for entry in self.entries.values() if entry.row is not None}


class Send(NamedTuple):
    """What has become of it."""

    entry: Entry


class Park(NamedTuple):
    entry: Entry


class Open(NamedTuple):
    """Or say anew of an open gate how its line is."""

    told: Told


class Close(NamedTuple):
    """The line is forgotten with it."""


Step = Send | Park | Open | Close


class Batch(NamedTuple):
    """A micro-batch of retry."""

    token: int  # another one in each, the same where it runs again
    now_ms: int  # by the lane's clock
    woken: Container[str]  # rows that have come
    is_ripe: Callable[[Position], bool]


def serve(
    line: Line, batch: Batch, attempt: Callable[[Entry], Outcome], policy: RetryPolicy
) -> Iterator[Step]:
    """What this batch does for a line, which is changed. May be called twice in a batch."""
    needs = line.needs()  # with what this batch takes from it: it may end half done (R5)
    _wake(line, batch)
    yield from _park(line, batch, policy)
    _give_up_what_is_too_much(line, batch, policy)
    yield from _go_through(line, batch, attempt, policy)
    if line.entries:
        line.emptied_in = None
        told = line.tells(needs, policy)
        if told.is_news_to(line.told):
            line.told = told
            yield Open(told)
    elif line.emptied_in is None:
        line.emptied_in = batch.token
    elif line.emptied_in != batch.token:
        line.closed = True
        yield Close()


def _wake(line: Line, batch: Batch) -> None:
    """Also what cannot be tried at once: the row comes but once."""
    for entry in line.entries.values():
        if entry.row is not None and entry.row in batch.woken:
            entry.row, entry.due_ms = None, AT_ONCE


def _park(line: Line, batch: Batch, policy: RetryPolicy) -> Iterator[Step]:
    """What an earlier batch has noted."""
    for entry in line.in_order():
        if entry.given_up_in in (None, batch.token) or entry.parked:
            continue
        yield Park(entry)
        if policy.when_parked == "wait":
            entry.parked = True
        else:
            line.remove(entry)


def _give_up_what_is_too_much(line: Line, batch: Batch, policy: RetryPolicy) -> None:
    for entry in line.too_many(policy.line_max):
        if batch.is_ripe(entry.read_at):
            entry.given_up_in = batch.token
            entry.reason = LINE_FULL
            entry.detail = f"{policy.line_max} of its payloads wait already, no more may"


def _go_through(
    line: Line, batch: Batch, attempt: Callable[[Entry], Outcome], policy: RetryPolicy
) -> Iterator[Step]:
    stays = policy.when_parked == "wait"
    is_behind = False  # behind what was given up in this batch: nothing may be sent (R2)
    for entry in line.in_order():
        if entry.parked:
            return
        if entry.given_up_in is not None:
            is_behind = True
        elif not batch.is_ripe(entry.read_at):
            return
        else:
            outcome = _try(entry, batch, attempt, policy)
            if isinstance(outcome, Missing):
                return
            if isinstance(outcome, Refused):
                is_behind = True
            elif not is_behind:
                yield Send(entry)
                line.remove(entry)
        if is_behind and stays:
            return


def _try(
    entry: Entry, batch: Batch, attempt: Callable[[Entry], Outcome], policy: RetryPolicy
) -> Outcome:
    """Refused: it is given up."""
    age_ms = batch.now_ms - entry.counts_from_ms
    if not entry.tries or (entry.row is None and batch.now_ms >= entry.due_ms):
        outcome = attempt(entry)
        if isinstance(outcome, Passed):
            return outcome
        entry.tries += 1
        entry.reason, entry.detail = outcome.reason, outcome.detail
        if isinstance(outcome, Missing):
            entry.row = outcome.row
            entry.due_ms = batch.now_ms + policy.pause_ms(entry.event_id, entry.tries)
    else:
        outcome = Missing(entry.reason, entry.detail, entry.row)
    if isinstance(outcome, Missing) and policy.is_over(entry.tries, age_ms):
        outcome = Refused(entry.reason, entry.detail)
    if isinstance(outcome, Refused):
        entry.given_up_in = batch.token
    return outcome
