"""The payloads of an entity that wait, and what a batch of retry does for them, by the rules of
`protocol.py`. Pure."""

from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from shared.events.envelope import Position
from shared.retry_policy import LineRules, RetryPolicy
from stream_jobs.waiting.entry import AT_ONCE, GIVEN_UP, Entry, Missing, Outcome, Refused
from stream_jobs.waiting.protocol import LINE_FULL, NOT_YET, Partition


class Told(NamedTuple):
    """What an open gate says of its line."""

    payloads: int  # to a sixteenth: not each one that joins a long line is worth a record
    since_ms: int
    origin: str  # of the first of them, and why that waits
    reason: str
    detail: str
    needs: Mapping[str, int]  # of each partition of the lane nothing before that
    full: bool = False  # what comes beyond is parked
    due_ms: int | None = None  # its next try, by the time of day; None: when a row has come
    tries: int = 0

    @property
    def is_for_a_row(self) -> bool:
        """Whether it waits for a row of master data."""
        return self.reason != NOT_YET

    def is_news_to(self, before: "Told | None") -> bool:
        if before is None or self._replace(payloads=before.payloads) != before:
            return True
        return abs(self.payloads - before.payloads) * 16 > before.payloads


class Look(NamedTuple):
    """When a line is to be served again, if nothing comes for it before."""

    due_ms: int | None  # by the time of day
    old_ms: int | None  # by the lane's clock: then its first payload is too old
    rows: Collection[str]  # or when one of these has come

    def is_due(self, time_ms: int, now_ms: int) -> bool:
        is_due = self.due_ms is not None and self.due_ms <= time_ms
        return is_due or (self.old_ms is not None and self.old_ms <= now_ms)


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

    def hurry(self) -> None:
        """An operator says that what they wait for is there."""
        for entry in self._not_parked():
            entry.row, entry.due_ms = None, AT_ONCE

    def give_up(self) -> None:
        """An operator does, all that wait now."""
        for entry in self._not_parked():
            entry.unwanted = True

    def next_look(self, rules: LineRules) -> Look:
        head, rows = next(iter(self.in_order()), None), self.rows()
        if head is None or self._has_to_park(rules) or not (head.parked or head.tries):
            return Look(AT_ONCE, None, rows)
        if head.parked:
            return Look(None, None, rows)
        age_max_s = rules.policy_of(head.payload_type).age_max_s
        old_ms = head.counts_from_ms + int(age_max_s * 1000)
        return Look(
            head.due_ms if head.is_tried_when_due else None,
            old_ms if head.away_since_ms is None else None,
            rows,
        )

    def _has_to_park(self, rules: LineRules) -> bool:
        gone = (one.unwanted or one.given_up_in is not None for one in self._not_parked())
        return any(gone) or bool(self.too_many(rules.payloads_max))

    def _not_parked(self) -> Iterator[Entry]:
        return (entry for entry in self.entries.values() if not entry.parked)

    def needs(self) -> dict[str, int]:
        needs: dict[str, int] = {}
        for partition, offset in (entry.in_lane for entry in self.entries.values()):
            needs[str(partition)] = min(offset, needs.get(str(partition), offset))
        return needs

    def tells(self, needs: Mapping[str, int], rules: LineRules) -> Told:
        head, entries = self.in_order()[0], self.entries.values()
        return Told(
            len(entries),
            min(entry.waits_since_ms for entry in entries),
            str(head.place),
            head.reason,
            head.detail,
            needs,
            len(entries) >= rules.payloads_max,
            head.due_ms if head.tries and head.is_tried_when_due else None,
            head.tries,
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
    time_ms: int  # of day
    now_ms: int  # by the lane's clock
    woken: Container[str]  # rows that have come
    is_ripe: Callable[[Position], bool]


def serve(
    line: Line, batch: Batch, attempt: Callable[[Entry], Outcome], rules: LineRules
) -> Iterator[Step]:
    """What this batch does for a line, which is changed. May be called twice in a batch."""
    needs = line.needs()  # with what this batch takes from it: it may end half done (R5)
    _wake(line, batch)
    yield from _park(line, batch, rules)
    _give_up_what_is_too_much(line, batch, rules)
    _give_up_what_is_unwanted(line, batch)
    yield from _go_through(line, batch, attempt, rules)
    if line.entries:
        line.emptied_in = None
        told = line.tells(needs, rules)
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


def _park(line: Line, batch: Batch, rules: LineRules) -> Iterator[Step]:
    """What an earlier batch has noted."""
    for entry in line.in_order():
        if entry.given_up_in in (None, batch.token) or entry.parked:
            continue
        yield Park(entry)
        if rules.when_parked == "wait":
            entry.parked = True
        else:
            line.remove(entry)


def _give_up_what_is_too_much(line: Line, batch: Batch, rules: LineRules) -> None:
    for entry in line.too_many(rules.payloads_max):
        if batch.is_ripe(entry.read_at):
            entry.given_up_in = batch.token
            entry.reason = LINE_FULL
            entry.detail = f"{rules.payloads_max} of its payloads wait already, no more may"


def _give_up_what_is_unwanted(line: Line, batch: Batch) -> None:
    """Whatever those ahead wait for, and whether or not they hold up others."""
    for entry in line.in_order():
        if entry.unwanted and entry.given_up_in is None and batch.is_ripe(entry.read_at):
            entry.given_up_in = batch.token
            entry.reason = GIVEN_UP
            entry.detail = f"by hand, while it waited: {entry.detail}".removesuffix(": ")


def _go_through(
    line: Line, batch: Batch, attempt: Callable[[Entry], Outcome], rules: LineRules
) -> Iterator[Step]:
    stays = rules.when_parked == "wait"
    is_behind = False  # behind what was given up in this batch: nothing may be sent (R2)
    for entry in line.in_order():
        if entry.parked:
            return
        if entry.given_up_in is not None:
            is_behind = True
        elif not batch.is_ripe(entry.read_at):
            return
        else:
            policy = rules.policy_of(entry.payload_type)
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
    if entry.is_due(batch.time_ms):
        outcome = attempt(entry)
        if isinstance(outcome, Missing):
            entry.has_to_wait(outcome, batch.now_ms, batch.time_ms, policy)
        elif isinstance(outcome, Refused):
            entry.tries += 1
    else:
        outcome = Missing(entry.reason, entry.detail, entry.row)
    if isinstance(outcome, Missing) and entry.is_over(batch.now_ms, policy):
        outcome = Refused(entry.reason, entry.detail)
    if isinstance(outcome, Refused):
        entry.reason, entry.detail = outcome.reason, outcome.detail
        entry.given_up_in = batch.token
    return outcome
