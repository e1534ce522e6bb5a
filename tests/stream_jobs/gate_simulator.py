"""enrich and retry on a log of Python lists: each read and each write is a step of its own, any
step may be followed by one of the other's or by a crash, and a batch that crashed runs again, with
what it sees by then. One seed is one schedule."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple

import orjson

from shared.events.envelope import Position
from shared.retry_policy import LineRules, RetryPolicy
from stream_jobs.waiting.entry import GIVEN_UP, Entry, Missing, Outcome, Passed, Refused
from stream_jobs.waiting.lane_clock import LaneClock
from stream_jobs.waiting.line import Batch, Close, Line, Open, Park, Send, Step, serve
from stream_jobs.waiting.line_key import entity_of
from stream_jobs.waiting.protocol import LINE_FULL, Gates, Look, Ripeness

Plan = dict[tuple[str, int], int]  # ingest partition -> up to where
Writes = list[list[tuple[str, Any]]]  # topic and record, in order per partition

LANES = 2
HOLDS_MS = 60  # the relay's word
WAKES_EVERY_MS = 20  # while anything waits
TOO_MANY = "too_many"
KEYS = ("a", "b", "c", "calm")
ROWS = ("row-1", "row-2")
_ROUNDS_MAX = 3_000


class Letter(NamedTuple):
    """A payload, whatever it is on."""

    key: str
    place: Position
    rows: tuple[str, ...] = ()  # of master data, without which it cannot be
    bad: bool = False
    ready_ms: int = 0
    away: bool = False  # so is what it waits for, until then
    arrived_ms: int = 0
    attempt: int = 0
    discards: bool = False
    read_at: Position | None = None  # by enrich, where it came again
    alone: bool = False  # no order is kept with others

    @property
    def line(self) -> str:
        return f"{self.key}\n{self.place}" if self.alone else self.key


class Event(NamedTuple):
    key: str
    place: Position
    attempt: int


class Parked(NamedTuple):
    letter: Letter
    tries: int
    reason: str = ""
    after: int = 0  # so many events


class Violation(AssertionError):  # noqa: N818 - it is what was found
    pass


@dataclass
class Log:
    """All that is durable."""

    ingest: dict[tuple[str, int], list[Letter]] = field(default_factory=lambda: defaultdict(list))
    master: list[tuple[str, bool]] = field(default_factory=list)  # row, whether it is there
    lane: list[list[Letter]] = field(default_factory=lambda: [[] for _ in range(LANES)])
    gates: list[tuple[str, bytes | None]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    parked: list[Parked] = field(default_factory=list)
    enriched: dict[tuple[str, int], int] = field(default_factory=dict)
    passed: dict[int, int] = field(default_factory=dict)
    as_of_ms: int = 0  # the relay's last word on master data
    orders: list[tuple[str, str]] = field(default_factory=list)  # an operator's


def hear_gate(gates: Gates, key: str, value: bytes | None) -> None:
    full = value is not None and orjson.loads(value)[1]
    gates.hear_gate(key, None if value is None else 1, full=full)


def lane_of(line: str) -> int:
    entity, _, place = line.partition("\n")
    return (KEYS.index(entity) + int(place[-1:] or 0)) % LANES


class Simulation:
    """What a mutant does wrong, it does by overriding one of the methods."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.log = Log()
        stays = self.random.random() < 0.5
        line_max = self.random.choice((1, 2, 3, 1000, 1000))
        parked = "wait" if stays else "go_on"
        self.rules = LineRules(RetryPolicy(0.02, 2.0, 0.1, 0.2, 3, 0.4), parked, line_max)
        self.refuses = self.random.choice((0.0, 0.0, 0.3))  # enrich, that another key waits
        self.now_ms = self.log.as_of_ms = 1000
        self._outages: list[list[int]] = []  # of the relay: from, to
        self._is_away = False
        self._clock = LaneClock(1000, 1000)
        self.full = self.refused = self.stood_ms = self.alone = 0
        self._enrich_done: dict[tuple[str, int], int] = defaultdict(int)
        self._enrich_plan: Plan | None = None
        self._retry_done: dict[Any, int] = defaultdict(int)
        self._retry_plan: tuple[int, dict[Any, int], LaneClock] | None = None
        self._lines: dict[str, Line] = {}
        self._letters: dict[tuple[str, Position], Letter] = {}
        self._tried: dict[tuple[Position, int], int] = defaultdict(int)  # by committed batches
        self._batches = 0
        self.sent_again = 0
        self._judged: set[tuple[Position, int]] = set()
        self.crashes = self.lost_checkpoints = self.rounds = 0
        self.serving: dict[str, Line] = {}

    # the world around

    def run(self) -> None:
        jobs = {"enrich": self._enrich(), "retry": self._retry()}
        left = self.random.randrange(4, 14)
        burst, haste = self.random.choice((0.03, 0.3)), self.random.choice((0.1, 0.5, 0.9))
        harm = self.random.choice((0.0, 0.005, 0.02, 0.05))
        for row in self.random.sample(ROWS, self.random.randrange(3)):
            self.log.master.append((row, True))
        for _ in range(self.random.randrange(100, 350)):
            if left and self.random.random() < burst:
                left -= 1
                self._arrive()
            self._happen()
            name = "enrich" if self.random.random() < haste else "retry"
            next(jobs[name])
            if self.random.random() < harm:
                if name == "retry" and self.random.random() < 0.25:
                    self._lose_checkpoint()
                jobs[name] = self._enrich() if name == "enrich" else self._retry()
                self.crashes += 1
        self._settle(jobs)
        self.check()

    def _arrive(self) -> None:
        key = self.random.choice(KEYS)
        topic = self.random.choice(("readings", "readings", "status"))
        at = topic, 0 if key in ("a", "b") else 1
        place = Position(*at, len(self.log.ingest[at]))
        # a broker's clock may be set back
        letter = Letter(key, place, arrived_ms=self.now_ms - self.random.randrange(3))
        if key != "calm":
            draw = self.random.random()
            if draw < 0.5:
                letter = letter._replace(rows=(self.random.choice(ROWS),))
            elif draw < 0.6:
                letter = letter._replace(rows=ROWS)
            elif draw < 0.7:
                letter = letter._replace(bad=True)
            elif draw < 0.8:
                ready_ms = self.now_ms + self.random.choice((100, 1000))
                letter = letter._replace(ready_ms=ready_ms, away=self.random.random() < 0.5)
            # behind a parked one of those that wait alone there is nobody
            is_alone = self.rules.when_parked == "go_on" and self.random.random() < 0.2
            letter = letter._replace(alone=is_alone)
            self.alone += is_alone
        self.log.ingest[at].append(letter)

    def _happen(self) -> None:
        draw = self.random.random()
        if draw < 0.3:
            self._pass_time(self.random.randrange(8))
        elif draw < 0.301:
            self._pass_time(self.random.randrange(600))
        elif draw < 0.305:
            self._is_away = not self._is_away
        elif draw < 0.32:
            self.log.master.append((self.random.choice(ROWS), self.random.random() < 0.7))
        elif draw < 0.33:
            self._send_again()
        elif draw < 0.335:
            order = self.random.choice(KEYS), self.random.choice(("try", "give_up"))
            self.log.orders.append(order)

    def _pass_time(self, passed_ms: int) -> None:
        if self._is_away:
            if not self._outages or self._outages[-1][1] != self.now_ms:
                self._outages.append([self.now_ms, self.now_ms])
            self._outages[-1][1] += passed_ms
        self.now_ms += passed_ms
        if not self._is_away:
            self.log.as_of_ms = self.now_ms

    def _send_again(self) -> None:
        """One of those that are parked, mended or not, or discarded."""
        if len(self.log.parked) > self.sent_again:
            letter = self.log.parked[self.sent_again].letter
            self.sent_again += 1
            if (letter.place, letter.attempt) in self._judged:
                return  # a copy: whoever looks at letters knows them by their event's id
            self._judged.add((letter.place, letter.attempt))
            draw = self.random.random()
            again = letter._replace(attempt=letter.attempt + 1)
            if draw < 0.7:
                again = again._replace(bad=False, rows=(), ready_ms=0)
            elif draw < 0.8:
                again = again._replace(discards=True)
            self.log.ingest["again", lane_of(letter.key)].append(again)

    def _settle(self, jobs: dict[str, Iterator[None]]) -> None:
        """No more faults, and whatever was missing comes or is given up: all has to end."""
        quiet = 0
        self._is_away, self.refuses = False, 0.0
        for _ in range(_ROUNDS_MAX):
            for job in jobs.values():
                for _ in range(self.random.randrange(1, 12)):
                    next(job)
            self._pass_time(self.random.randrange(60))
            if not self.is_quiet():
                quiet = 0
            elif len(self.log.parked) > self.sent_again:
                self._send_again()
            elif (quiet := quiet + 1) > 2:
                return
        raise Violation(f"stuck: {self._lines}, gates {self.gates()}")

    def is_quiet(self) -> bool:
        read = all(self._enrich_done[at] == len(log) for at, log in self.log.ingest.items())
        passed = all(
            self.log.passed.get(lane, 0) == len(log) for lane, log in enumerate(self.log.lane)
        )
        waits = any(
            not entry.parked for line in self._lines.values() for entry in line.in_order()[:1]
        )
        over = all(line.entries for line in self._lines.values())
        return read and passed and over and not waits

    def gates(self) -> dict[str, bytes]:
        """As compaction leaves them."""
        latest = dict(self.log.gates)
        return {key: value for key, value in latest.items() if value is not None}

    def _lose_checkpoint(self) -> None:
        """Of retry, which begins where its gates say."""
        self._lines, self._letters, self._retry_plan = {}, {}, None
        needed = self.needed()
        self._retry_done = defaultdict(
            int,
            {at: min(done, needed.get(at, done)) for at, done in self.log.passed.items()},
            master=len(self.log.master),
            orders=len(self.log.orders),
        )
        self.log.passed = self._passed()
        self._tried.clear()
        self._clock = LaneClock(self.now_ms, self.log.as_of_ms)
        self.lost_checkpoints += 1

    def needed(self) -> dict[int, int]:
        needed: dict[int, int] = {}
        for lane, offset in (
            at for value in self.gates().values() for at in orjson.loads(value)[0]
        ):
            needed[int(lane)] = min(offset, needed.get(int(lane), offset))
        return needed

    # enrich

    def _enrich(self) -> Iterator[None]:
        self.log.enriched = dict(self._enrich_done)  # a new copy publishes what is committed
        yield
        while True:
            self._enrich_plan = self._enrich_plan or self._news()
            if not self._enrich_plan:
                yield
            elif self.random.random() < 0.5:
                yield from self._enrich_and_go(self._enrich_plan)
            else:
                yield from self._enrich_and_stay(self._enrich_plan)

    def _news(self) -> Plan:
        return {
            at: self._up_to(self._enrich_done[at], end)
            for at, log in self.log.ingest.items()
            if (end := len(log)) > self._enrich_done[at]
        }

    def _enrich_and_go(self, plan: Plan) -> Iterator[None]:
        yield
        writes: Writes = []
        for at, end in plan.items():
            gates = Gates()
            yield from self.read_gates(gates)
            letters = self._letters_of(at, end)
            writes += self.by_partition(self.enrich_task(letters, gates))
        yield from self.finish(plan, writes)
        yield from self._tell_of_it()

    def _enrich_and_stay(self, plan: Plan) -> Iterator[None]:
        """In one task; what comes after the first round is in no plan."""
        yield
        gates = Gates()
        yield from self.read_gates(gates)
        while plan:
            letters = [one for at, end in plan.items() for one in self._letters_of(at, end)]
            writes = self.by_partition(self.enrich_task(letters, gates))
            yield from self.finish_round(plan, writes, gates)
            self.rounds += 1
            if self.random.random() < 0.7:
                yield from self._tell_of_it()
            if self.random.random() < 0.1:
                break
            plan = self._news()
        yield from self._tell_of_it()

    def _letters_of(self, at: tuple[str, int], end: int) -> list[Letter]:
        first = self._enrich_done[at]
        return [
            letter._replace(read_at=Position(*at, first + number))
            for number, letter in enumerate(self.log.ingest[at][first:end])
        ]

    def finish_round(self, plan: Plan, writes: Writes, gates: Gates) -> Iterator[None]:
        yield from self.finish(plan, writes)
        if gates.hold_any() and self.random.random() < 0.3:
            yield from self.read_gates(gates)

    def finish(self, plan: Plan, writes: Writes) -> Iterator[None]:
        yield from self._land(writes)
        self._enrich_done.update(plan)
        self._enrich_plan = None
        yield

    def _tell_of_it(self) -> Iterator[None]:
        self.log.enriched = dict(self._enrich_done)
        yield

    def _up_to(self, done: int, end: int) -> int:
        return done + int((end + 1 - done) * self.random.random() ** 2)

    def read_gates(self, gates: Gates) -> Iterator[None]:
        gates.hear_passed(dict(self.log.passed))
        yield
        for key, value in list(self.log.gates):
            hear_gate(gates, key, value)
        yield
        self.read_lane(gates)
        gates.heard_all()
        yield

    def read_lane(self, gates: Gates) -> None:
        for partition, log in enumerate(self.log.lane):
            for offset, letter in enumerate(log):
                gates.hear_lane(partition, offset, letter.line)

    def enrich_task(self, letters: list[Letter], gates: Gates) -> Iterator[tuple[str, Any]]:
        # any worker's view, which may lag
        rows = self._rows(int(len(self.log.master) * self.random.random() ** 0.5 + 0.5))
        for letter in letters:
            if self.must_wait(gates, letter.line):
                if self.may_park_held() and gates.is_full(letter.line) and not letter.discards:
                    self.full += 1
                    yield "parked", Parked(letter, 1, TOO_MANY)
                else:
                    yield "lane", letter
            elif letter.discards:
                continue
            elif self.is_refused(gates, letter.line):
                yield "parked", Parked(letter, 1, TOO_MANY)
            else:
                outcome = self._outcome(letter, rows)
                if isinstance(outcome, Passed):
                    yield "events", Event(letter.key, letter.place, letter.attempt)
                elif isinstance(outcome, Refused) and self.rules.when_parked == "go_on":
                    yield "parked", Parked(letter, 1)
                elif self.random.random() < self.refuses:
                    self.refused += 1
                    gates.refuse(letter.line, TOO_MANY)
                    yield "parked", Parked(letter, 1, TOO_MANY)
                else:
                    gates.sent_to_lane(letter.line)
                    yield "lane", letter

    def may_park_held(self) -> bool:
        return self.rules.when_parked == "go_on"

    def must_wait(self, gates: Gates, key: str) -> bool:
        return gates.hold(key)

    def is_refused(self, gates: Gates, key: str) -> bool:
        return gates.refused_for(key) is not None

    def _rows(self, upto: int) -> set[str]:
        return {row for row, there in dict(self.log.master[:upto]).items() if there}

    def _outcome(self, letter: Letter, rows: set[str], detail: str = "") -> Outcome:
        if letter.bad:
            return Refused("bad", "")
        for row in letter.rows:
            if row not in rows:
                return Missing("missing", detail, row)
        if letter.ready_ms > self.now_ms:
            after_ms = self.random.choice((None, 0, 30))
            return Missing("not_yet", detail, None, after_ms, letter.away)
        return Passed()

    def by_partition(self, records: Iterator[tuple[str, Any]]) -> Writes:
        """In order within a partition of a topic only."""
        queues: dict[Any, list[tuple[str, Any]]] = defaultdict(list)
        for topic, record in records:
            key = record[0].key if topic == "parked" else record[0]
            if topic == "lane":
                key = record.line
            queues[topic, lane_of(key)].append((topic, record))
        return list(queues.values())

    def _land(self, queues: list[list[tuple[str, Any]]]) -> Iterator[None]:
        while queues:
            queue = self.random.choice(queues)
            topic, record = queue.pop(0)
            if topic == "lane":
                self.log.lane[lane_of(record.line)].append(record)
            elif topic == "parked":
                self.log.parked.append(record._replace(after=len(self.log.events)))
            else:
                getattr(self.log, topic).append(record)
            if not queue:
                queues.remove(queue)
            yield

    # retry

    def _retry(self) -> Iterator[None]:
        self.log.passed = self._passed()  # a new copy publishes what is committed
        ripeness = Ripeness()
        yield
        while True:
            if self._retry_plan is None:
                if not self._has_work():
                    yield
                    continue
                self._batches += 1
                ends: dict[Any, int] = {
                    lane: self._up_to(self._retry_done[lane], len(log))
                    for lane, log in enumerate(self.log.lane)
                }
                ends["orders"] = self._up_to(self._retry_done["orders"], len(self.log.orders))
                ends["master"] = self._up_to(self._retry_done["master"], len(self.log.master))
                self._retry_plan = self._batches, ends, self._clock_at()
            token, ends, clock = self._retry_plan
            yield
            yield from self.look(ripeness)
            lines = {key: _copy(line) for key, line in self._lines.items()}
            letters = dict(self._letters)
            tried: dict[tuple[Position, int], int] = defaultdict(int)
            steps = self._serve(lines, letters, token, clock, ends, ripeness, tried)
            yield from self._land(self.by_partition(iter(steps)))
            self._lines = lines
            self._letters = letters
            for ident, times in tried.items():
                self._tried[ident] += times
            self.stood_ms += clock.stood_ms - self._clock.stood_ms
            self._clock = clock
            self._retry_done.update(ends)
            self._retry_plan = None
            yield
            self.log.passed = self._passed()
            yield

    def _has_work(self) -> bool:
        now_ms = self._clock_at().now_ms
        looks = (line.next_look(self.rules) for line in self._lines.values())
        return (
            any(self._retry_done[lane] < len(log) for lane, log in enumerate(self.log.lane))
            or self._retry_done["master"] < len(self.log.master)
            or self._retry_done["orders"] < len(self.log.orders)
            or any(look.is_due(self.now_ms, now_ms) for look in looks)
            or (bool(self._lines) and self.now_ms >= self._clock.seen_ms + WAKES_EVERY_MS)
        )

    def _clock_at(self) -> LaneClock:
        """With the relay's word, if it was woken and not only sent something."""
        was_woken = self.now_ms >= self._clock.seen_ms + WAKES_EVERY_MS
        as_of_ms = self.log.as_of_ms if was_woken or self.random.random() < 0.3 else None
        return self.clock_at(self._clock, as_of_ms)

    def clock_at(self, before: LaneClock, as_of_ms: int | None) -> LaneClock:
        return before.at(self.now_ms, as_of_ms, HOLDS_MS)

    def _passed(self) -> dict[int, int]:
        return {lane: self._retry_done[lane] for lane in range(LANES)}

    def look(self, ripeness: Ripeness) -> Iterator[None]:
        passed = self._passed()
        enriched = dict(self.log.enriched)
        yield
        lane_ends = {lane: len(log) for lane, log in enumerate(self.log.lane)}
        ripeness.hear(Look(enriched, lane_ends), passed)
        yield

    def _serve(
        self,
        lines: dict[str, Line],
        letters: dict[tuple[str, Position], Letter],
        token: int,
        clock: LaneClock,
        ends: dict[Any, int],
        ripeness: Ripeness,
        tried: dict[tuple[Position, int], int],
    ) -> list[tuple[str, Any]]:
        touched = set()
        for lane, log in enumerate(self.log.lane):
            first = self._retry_done[lane]
            for offset, letter in enumerate(log[first : ends[lane]], first):
                line = lines.setdefault(letter.line, Line())
                touched.add(letter.line)
                if letter.discards:
                    for entry in line.discard(letter.place, letter.attempt):
                        del letters[letter.line, entry.place]
                elif line.take(self._entry(letter, lane, offset, clock)):
                    letters[letter.line, letter.place] = letter
        orders = self.log.orders[self._retry_done["orders"] : ends["orders"]]
        ordered = {key for key, _ in orders}
        woken = {row for row, _ in self.log.master[self._retry_done["master"] : ends["master"]]}
        times = clock.seen_ms, clock.now_ms
        batch = Batch(token, *times, woken, lambda place: self.is_ripe(ripeness, place))
        seen = self.retry_sees(ends["master"])
        rows = self._rows(seen)
        records: list[tuple[str, Any]] = []
        self.serving = lines
        for key, line in sorted(lines.items()):
            is_due = line.next_look(self.rules).is_due(*times)
            if not (is_due or line.rows() & woken or key in touched or entity_of(key) in ordered):
                continue
            for what in [what for whose, what in orders if whose == entity_of(key)]:
                line.hurry() if what == "try" else line.give_up()

            def attempt(entry: Entry, key: str = key) -> Outcome:
                letter = letters[key, entry.place]
                outcome = self._outcome(letter, rows, str(seen))
                if not isinstance(outcome, Passed):
                    tried[entry.place, entry.attempt] += 1
                return outcome

            for step in self.serve(line, batch, attempt):
                records += self._written(key, step, letters)
                if isinstance(step, Close):
                    del lines[key]
            self._check_line(line, batch, clock)
            for entry in line.in_order():
                if entry.reason in (LINE_FULL, GIVEN_UP):
                    continue
                if entry.given_up_in == token and letters[key, entry.place].away:
                    self._check_away(entry, letters[key, entry.place])
                since = self.log.master[int(entry.detail or 0) : ends["master"]]
                if entry.given_up_in == token and (entry.row, True) in since:
                    raise Violation(f"given up, though its row has come: {entry}")
        return records

    def _entry(self, letter: Letter, lane: int, offset: int, clock: LaneClock) -> Entry:
        assert letter.read_at is not None
        return Entry(
            letter.place,
            str(letter.place),
            letter.read_at,
            letter.arrived_ms,
            clock.seen_ms,
            (lane, offset),
            letter.attempt,
            taken_ms=clock.now_ms,
        )

    def _check_line(self, line: Line, batch: Batch, clock: LaneClock) -> None:
        order = line.in_order()
        waits = [one for one in order if one.given_up_in is None and batch.is_ripe(one.read_at)]
        if len(waits) > self.rules.payloads_max:
            raise Violation(f"{len(waits)} wait in a line: {line}")
        new = [one for one in order if one.given_up_in == batch.token]
        for entry in new:
            if entry.reason == LINE_FULL:
                if any(order.index(one) > order.index(entry) for one in waits):
                    raise Violation(f"parked, and later ones wait: {entry}")
            elif (
                entry.reason in ("missing", "not_yet")
                and entry.tries < self.rules.policy.attempts_max
            ):
                self._check_age(entry, clock)

    def _check_away(self, entry: Entry, letter: Letter) -> None:
        if entry.reason == "not_yet" and letter.ready_ms > self.now_ms:
            raise Violation(f"given up, and what it waits for was away: {entry}")

    def _check_age(self, entry: Entry, clock: LaneClock) -> None:
        """By the outages as they were. The clock may run on for as long as the last word holds."""
        taken_ms = entry.waits_since_ms
        stood_ms = sum(
            max(0, min(end, clock.seen_ms) - max(begin + HOLDS_MS, taken_ms))
            for begin, end in self._outages
        )
        if clock.seen_ms - taken_ms - stood_ms < self.rules.policy.age_max_s * 1000:
            raise Violation(f"too old by an outage of {stood_ms} ms: {entry}")

    def _written(
        self, key: str, step: Step, letters: dict[tuple[str, Position], Letter]
    ) -> Iterator[tuple[str, Any]]:
        match step:
            case Send(entry):
                yield "events", Event(entity_of(key), entry.place, entry.attempt)
                del letters[key, entry.place]
            case Park(entry):
                letter = letters[key, entry.place]
                self.full += entry.reason == LINE_FULL
                yield "parked", Parked(letter, entry.tries, entry.reason)
                if self.rules.when_parked == "go_on":
                    del letters[key, entry.place]
            case Open(told):
                yield "gates", (key, orjson.dumps([[*told.needs.items()], told.full]))
            case Close():
                yield "gates", (key, None)

    def serve(self, line: Line, batch: Batch, attempt: Any) -> list[Step]:
        return list(serve(line, batch, attempt, self.rules))

    def is_ripe(self, ripeness: Ripeness, place: Position) -> bool:
        return ripeness.has_reached(place)

    def retry_sees(self, _read: int) -> int:
        """Of the master data: to its end."""
        return len(self.log.master)

    # what has to hold

    def check(self) -> None:
        if self._lines or self.gates() or self._letters:
            raise Violation(f"left over: {self._lines}, {self.gates()}, {self._letters}")
        if any(letter.key == "calm" for log in self.log.lane for letter in log):
            raise Violation("calm was held")
        self._check_nothing_lost()
        self._check_order()
        self._check_tries()
        self._check_parked()

    def _check_nothing_lost(self) -> None:
        done = {event.place for event in self.log.events}
        discarded = {
            letter.place
            for at, log in self.log.ingest.items()
            for letter in log
            if at[0] == "again" and letter.discards
        }
        for at, log in self.log.ingest.items():
            for letter in log:
                if at[0] != "again" and letter.place not in done | discarded:
                    raise Violation(f"lost: {letter}")

    def _check_order(self) -> None:
        """As a fold judges: behind its mark a first attempt is a repeat of what it has seen."""
        seen: set[Position] = set()
        marks: dict[tuple[str, str], int] = {}
        latest: dict[tuple[str, str], int] = {}
        refused = {one.letter.place for one in self.log.parked if one.reason == TOO_MANY}
        letters = (letter for log in self.log.ingest.values() for letter in log)
        alone = {letter.place for letter in letters if letter.alone}
        for event in self.log.events:
            log = event.key, event.place.topic
            if event.place in alone:
                continue
            if event.attempt == 0:
                if event.place.offset <= marks.get(log, -1):
                    if event.place not in seen:
                        raise Violation(f"behind others for the first time: {event}")
                    continue
                marks[log] = event.place.offset
            if event.place in seen:
                continue
            seen.add(event.place)
            if event.place in refused:
                continue  # a cap is stronger than the order
            if self.rules.when_parked == "wait" and event.place.offset < latest.get(log, -1):
                raise Violation(f"out of order: {event}")
            latest[log] = max(event.place.offset, latest.get(log, -1))

    def _check_parked(self) -> None:
        """What a line was too full for has no effect before it is sent again."""
        if self.lost_checkpoints:
            return
        done = {(one.place, one.attempt): at for at, one in enumerate(self.log.events, 1)}
        for letter, _, reason, after in self.log.parked:
            if reason == LINE_FULL and done.get((letter.place, letter.attempt), 0) > after:
                raise Violation(f"parked and done: {letter}")

    def _check_tries(self) -> None:
        told: dict[tuple[Position, int], list[int]] = defaultdict(list)
        for letter, tries, reason, _ in self.log.parked:
            if reason == TOO_MANY:
                continue  # another run may have sent it to the lane
            told[letter.place, letter.attempt].append(tries)
        for ident, counted in self._tried.items() if not self.lost_checkpoints else ():
            # a letter that is parked is told of with all its tries; twice where a batch ran again
            if ident in told and max(told[ident]) != counted:
                raise Violation(f"tries of {ident}: {counted}, told {told[ident]}")


def _copy(line: Line) -> Line:
    entries = {ident: replace(entry) for ident, entry in line.entries.items()}
    return Line(entries, line.told, line.emptied_in)
