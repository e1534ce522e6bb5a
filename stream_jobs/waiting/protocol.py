"""Order per entity while one of its payloads waits: the protocol between enrich and retry. Pure.

Words. A payload's *key* is its entity. The *lane* (`retry.enrich.v1`) has what enrich could not
do. The *gates* (`gate.enrich.v1`, compacted) have a record for each key whose payloads wait; retry
alone writes it, a null removes it. A *line* is what retry keeps of a key: its payloads, by arrival,
and within a partition of the ingest log by their place there. *Passed* is how far retry has done
with the lane, *enriched* how far enrich has done with its topics: both are the jobs' committed
offsets, written when all that a batch wrote is acknowledged.

enrich, at the start of a micro-batch, reads `passed`, then the gates and the lane, to their ends.
A key is held where its gate is open, where the lane has a record of it that is not passed, or where
enrich has sent one of its payloads to the lane since it read. A held key's payload goes to the lane
untried. So does, where those behind a parked one wait, what enrich would park: it holds its key,
too.

Where enrich stays at its topics, a batch has rounds. Each ends as a batch does: when all that it
wrote is acknowledged it is remembered to be done, and a batch that runs again begins behind it. In
the rules a round is a batch, but for one thing: it need not read anew. Who is held has come from
enrich alone, so who was not when it read is held by nobody but itself; and who is held stays so
until it reads again, which is between two rounds.

retry tries the payloads of a line in order, by the same function as enrich, and writes the events
itself, so nothing has to be brought back in turn. In its rules "later" is a later micro-batch: it
begins when all that the earlier one wrote is acknowledged.
R1 A payload is tried when it is *ripe*: `enriched` was seen behind the place where enrich read it,
   and `passed` since behind the end that the lane had then. So enrich has done with that batch,
   whatever of it was written twice or elsewhere is in the line, and whatever of it went ahead is in
   its event topic.
R2 What is given up is first noted, and later written to the dead letters, and what is behind it
   tried: a batch that runs again may find master data that it did not find before.
R3 The gate opens in the batch that leaves something in the line, before `passed` moves on.
R4 A line that is empty is closed later, by a null: the events that emptied it are there first.
R5 A gate also says from where on its line needs the lane, and only later that it needs less. So who
   has lost all lines begins where the open gates or `passed` say, and first sets `passed` back to
   that: then nothing is ripe before all is read again.
R6 Of a line that is longer than it may be, the last ones are given up as any other: once they are
   ripe (else enrich could still send one past a line that has emptied meanwhile), and noted first.
   Whoever looks at the line has them parked, whatever those ahead wait for.

Invariants, for each key and ingest partition:
I1 Who is not held has nothing waiting, and all its earlier payloads are in their topics: a lane
   record is behind `passed` (enrich sees it), or in a line whose gate is open (R3), or done (R4).
I2 A payload that one run of enrich's batch sent to the lane, each later run sends there, too: it is
   not ripe before that batch is done with (R1), so its key stays held. So a payload that went both
   ways went ahead first, and its second event is a repeat.
I3 First effects come in ingest order: among direct ones by enrich's task, among those of a line by
   the line, from direct to line by R1, from line to direct by I1. Behind a parked one others go
   ahead (`go_on`) or stay (`wait`). So a fold may judge by its marks, however often a batch runs.
I4 Nothing is stuck: a payload waits for a row only after a look at master data that had all
   arrivals until then, so the row's arrival is still to come; all else has a time.
Caps. What would have a key wait anew enrich parks at once where too many wait (`limits`), and
with it what comes behind it until the gates are read anew: a run of the batch that finds its row,
or counts otherwise, must not find that later ones went ahead. Then it has its effect all the same,
and its dead letter, where it is sent again, is a repeat. It has no line, so later others go ahead,
whatever the policy. Where they may (`go_on`), it also parks what would join a line that its gate
tells to be full: who is held stays so until the gates are read anew, so nothing behind it has gone
ahead by itself.

A payload is due, or too old, by the lane's clock, which stands while master data is stale
(`lane_clock`).

The price: a key that sends faster than retry's batches follow each other stays held until it rests.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from shared.events.envelope import Position
from shared.ids import tenant_of
from shared.retry_policy import RetryPolicy

Partition = tuple[str, int]
AT_ONCE = 0  # as a time that has passed
ENRICH = "enrich"  # the stage whose payloads wait
LINE_FULL = "line_full"


class Waiting(NamedTuple):
    """Of a tenant, to a sixteenth of each entity's payloads."""

    entities: int
    payloads: int

    def without(self, payloads: int | None) -> "Waiting":
        if payloads is None:
            return self
        return Waiting(self.entities - 1, self.payloads - payloads)


class Gates:
    """Whose payloads wait, as the gates and the lane say."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}  # how many payloads of each wait
        self._full: set[str] = set()
        self._of_tenants: dict[str, Waiting] = {}
        self._in_lane: dict[str, tuple[int, int]] = {}  # key -> partition, offset of the last one
        self._passed: dict[int, int] = {}
        self._sent: set[str] = set()
        self._refused: dict[str, str] = {}  # and why

    def hear_passed(self, passed: Mapping[int, int]) -> None:
        """First: what the gates and the lane say is heard later than this was true."""
        self._passed = {**self._passed, **passed}
        self._in_lane = {key: at for key, at in self._in_lane.items() if not self._is_passed(*at)}

    def hear_gate(self, key: str, payloads: int | None, *, full: bool = False) -> None:
        """None: it was closed."""
        (self._full.add if full else self._full.discard)(key)
        tenant = tenant_of(key)
        its = self._of_tenants.get(tenant, Waiting(0, 0)).without(self._open.pop(key, None))
        if payloads is not None:
            self._open[key] = payloads
            its = Waiting(its.entities + 1, its.payloads + payloads)
        if its.entities:
            self._of_tenants[tenant] = its
        else:
            self._of_tenants.pop(tenant, None)

    def hear_lane(self, partition: int, offset: int, key: str) -> None:
        if not self._is_passed(partition, offset):
            self._in_lane[key] = partition, offset

    def heard_all(self) -> None:
        """Of the lane, too, up to an end behind all that was sent there."""
        self._sent.clear()
        self._refused.clear()

    def sent_to_lane(self, key: str) -> None:
        self._sent.add(key)

    def refuse(self, key: str, reason: str) -> None:
        """It may not begin to wait."""
        self._refused[key] = reason

    def refused_for(self, key: str) -> str | None:
        return self._refused.get(key)

    def hold(self, key: str) -> bool:
        return key in self._sent or key in self._open or key in self._in_lane

    def is_full(self, key: str) -> bool:
        """Its line, as it was last told."""
        return key in self._full

    def waiting(self, tenant: str) -> Waiting:
        return self._of_tenants.get(tenant, Waiting(0, 0))

    def hold_any(self) -> bool:
        return bool(self._sent or self._refused or self._open or self._in_lane)

    def _is_passed(self, partition: int, offset: int) -> bool:
        return offset < self._passed.get(partition, 0)


class Look(NamedTuple):
    enriched: Mapping[Partition, int]
    lane_ends: Mapping[int, int]  # seen after that


class Ripeness:
    """Up to where enrich has done with its payloads and retry has read all that came of it (R1)."""

    def __init__(self) -> None:
        self._ripe: Mapping[Partition, int] = {}
        self._pending: Look | None = None

    def hear(self, look: Look, passed: Mapping[int, int]) -> None:
        for seen in filter(None, (self._pending, look)):
            if all(passed.get(at, 0) >= end for at, end in seen.lane_ends.items()):
                self._ripe, self._pending = seen.enriched, None
            elif self._pending is None:
                self._pending = seen

    def has_reached(self, place: Position) -> bool:
        return place.offset < self._ripe.get((place.topic, place.partition), 0)


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
