"""Order per entity while one of its payloads waits: the protocol between enrich and retry. Pure.

All rules stand here, for they are one proof; below is what enrich goes by, and in `line.py` what
retry does.

Words. A payload's *key* is its entity or, where its endpoint keeps no order, that and its own id
(`line_key`): then nobody else has it. The *lane* (`retry.enrich.v1`) has what enrich could not
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
   Whoever looks at the line has them parked, whatever those ahead wait for. So are those that an
   operator gives up.

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

A payload is too old by the lane's clock, which stands while master data is stale (`lane_clock`). It
is due by the time of day: what it waits for then is no master data.

The price: a key that sends faster than retry's batches follow each other stays held until it rests.
"""

from collections.abc import Mapping
from typing import NamedTuple

from shared.events.envelope import Position
from stream_jobs.waiting.line_key import tenant_of_line

Partition = tuple[str, int]
ENRICH = "enrich"  # the stage whose payloads wait
LINE_FULL = "line_full"
# why a payload waits that waits for no row of master data
NOT_YET = "not_yet"


class Waiting(NamedTuple):
    """How much of a tenant waits. Of each entity, payloads are counted to a sixteenth: its gate is
    not written anew for each of them."""

    unknown: int = 0  # entities that wait for a row of master data, which may never come
    payloads: int = 0

    def less(self, other: "Waiting") -> "Waiting":
        return Waiting(self.unknown - other.unknown, self.payloads - other.payloads)

    def more(self, other: "Waiting") -> "Waiting":
        return Waiting(self.unknown + other.unknown, self.payloads + other.payloads)


_NOBODY = Waiting()


class Gates:
    """Whose payloads wait, as the gates and the lane say."""

    def __init__(self) -> None:
        self._open: dict[str, Waiting] = {}
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

    def hear_gate(
        self, key: str, payloads: int | None, *, full: bool = False, unknown: bool = True
    ) -> None:
        """None: it was closed."""
        (self._full.add if full else self._full.discard)(key)
        tenant = tenant_of_line(key)
        of_tenant = self._of_tenants.get(tenant, _NOBODY).less(self._open.pop(key, _NOBODY))
        if payloads is not None:
            self._open[key] = Waiting(int(unknown), payloads)
            of_tenant = of_tenant.more(self._open[key])
        if of_tenant != _NOBODY:
            self._of_tenants[tenant] = of_tenant
        else:
            self._of_tenants.pop(tenant, None)

    def hear_lane(self, partition: int, offset: int, key: str) -> None:
        if not self._is_passed(partition, offset):
            self._in_lane[key] = partition, offset

    def heard_all(self) -> None:
        """Notes that all was heard, of the lane too, up to an end behind all that was sent
        there."""
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
        return self._of_tenants.get(tenant, _NOBODY)

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
