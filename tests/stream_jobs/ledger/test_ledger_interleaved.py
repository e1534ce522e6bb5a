"""The keeper between the steps of jobs that crash, write again and begin anew, in random order: the
ledger never accuses anyone wrongly, and in the end each payload is where the model has it.

HEADRACE_TEST_SEED=7 repeats a run, HEADRACE_TEST_SEEDS=100 makes it a long one.
"""

import os
import random
import threading
from collections import Counter
from typing import Any, NamedTuple

import pytest

from clients.kafka.records import Record
from clients.postgres import store
from shared.events.envelope import Position
from shared.flow import FLOW
from shared.published import ledger
from shared.published.ledger import Verdict
from shared.settings import JobSettings
from stream_jobs.ledger import keeper as ledger_keeper
from stream_jobs.ledger.keeper import LedgerKeeper
from stream_jobs.ledger.tables import LedgerBook, Partition
from stream_jobs.ledger.topics import Heard
from stream_jobs.persist.rows import EventRow
from stream_jobs.persist.writer import EventStore

pytestmark = pytest.mark.stack

SEEDS = int(os.environ.get("HEADRACE_TEST_SEEDS", "2"))
STEPS = 150
RING = 4
PAYLOADS, EVENTS, LANE = FLOW.endpoints[0].topic, FLOW.event_types[0].topic, "lane"


class Event(NamedTuple):
    place: int
    id: int


class World:
    """One partition of payloads and of events, three jobs over them, and what the keeper sees."""

    def __init__(self, rng: random.Random, events: EventStore, loses: int | None) -> None:
        self.rng, self.store, self.loses = rng, events, loses
        self.payloads: list[tuple[int, str]] = []  # minute, and an event's id or another end
        self.events: list[Event] = []
        self.lane: list[tuple[Position, int]] = []
        self.done = {"enrich": 0, "fold": 0, "persist": 0}
        self.published = dict(self.done)
        self.ring: list[int] = []
        self.mark = self.folded = -1  # of payloads, of events
        self.late: set[int] = set()

    def step(self) -> None:
        job = self.rng.choice(("device", "enrich", "fold", "persist"))
        if job == "device":
            self._receive()
        elif self.rng.random() < 0.005 and job != "fold":
            self.done[job] = 0  # its checkpoint is lost; fold goes on from its snapshots
        else:
            self._run(job)

    def drain(self) -> None:
        while any(self.published[job] < self._end(job) for job in self.done):
            for job in self.done:
                self._run(job, crashes=False)

    def _receive(self) -> None:
        minute = (self.payloads[-1][0] if self.payloads else 29_000_000) + self.rng.choice(
            (0, 0, 3)
        )
        new = sum(end.isdigit() for _, end in self.payloads)
        for _ in range(self.rng.randint(1, 5)):
            end = self.rng.choice(("waits", "parks", *["new"] * 5, *["again"] * 3))
            if end == "again" and new:
                end = str(self.rng.randint(max(0, new - 3 * RING), new))
            elif end in ("new", "again"):
                new = len(self.payloads)
                end = str(new)
            self.payloads.append((minute, end))

    def _end(self, job: str) -> int:
        return len(self.payloads if job == "enrich" else self.events)

    def _run(self, job: str, *, crashes: bool = True) -> None:
        """A batch; where it crashes, some of its output is there, and nobody knows."""
        begin = self.done[job]
        batch = range(begin, min(self._end(job), begin + self.rng.randint(1, 20)))
        dies_at = self.rng.choice(batch) if crashes and batch and self.rng.random() < 0.2 else -1
        state = [*self.ring], self.mark, self.folded, {*self.late}
        for at in batch:
            getattr(self, f"_{job}")(at)
            if at == dies_at:
                self.ring, self.mark, self.folded, self.late = state  # it was not committed
                return
        self.done[job] = batch.stop
        if not crashes or self.rng.random() < 0.8:
            self.published[job] = self.done[job]

    def _enrich(self, at: int) -> None:
        _, end = self.payloads[at]
        if at == self.loses:
            return
        if end.isdigit():
            self.events.append(Event(at, int(end)))
        else:
            verdict = Verdict.WAITING if end == "waits" else Verdict.PARKED
            self.lane.append((Position(PAYLOADS, 0, at), verdict))

    def _fold(self, at: int) -> None:
        event = self.events[at]
        if at <= self.folded or event.place <= self.mark:
            return
        self.folded = at
        if event.id in self.ring:
            self.lane.append((Position(PAYLOADS, 0, event.place), Verdict.KNOWN_REPEAT))
            return
        self.ring = [*self.ring, event.id][-RING:]
        self.mark = event.place
        self.late.add(event.place)  # unless it is the first of its id

    def _persist(self, at: int) -> None:
        event = self.events[at]
        origin = Position(PAYLOADS, 0, event.place)
        record = Record(Position(EVENTS, 0, at), b"d", b"{}", [])
        times = 1_000, 2_000
        self.store.write([EventRow(
            record, f"e{event.id}", "reading", "d", *times, str(origin), None, "{}",
            "completion.reading.v1", [("ce_id", b"c")], origin,
        )])  # fmt: skip

    def expected(self) -> dict[str, int]:
        ends: Counter[str] = Counter()
        seen: set[str] = set()
        for place, (_, end) in enumerate(self.payloads):
            if place == self.loses:
                ends["difference"] += 1
            elif not end.isdigit():
                ends[{"waits": "waiting", "parks": "parked"}[end]] += 1
            elif end not in seen:
                seen.add(end)
                ends["stored"] += 1
            else:
                ends["late_duplicate" if place in self.late else "duplicate"] += 1
        return {**dict.fromkeys(ledger.TERMS, 0), "received": len(self.payloads), **ends}


class SeenLog:
    """In the place of LedgerLog: whenever it is asked, the jobs have gone on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._next = 0

    def _look(self) -> World:
        for _ in range(self._world.rng.randint(0, 2)):
            self._world.step()
        return self._world

    def ends_of_payloads(self) -> dict[Partition, int]:
        return {(PAYLOADS, 0): len(self._look().payloads)}

    def ends_of_events(self, _job: str) -> dict[Partition, int]:
        return {(EVENTS, 0): len(self._look().events)}

    def ends_of_lanes(self) -> dict[Partition, int]:
        return {(LANE, 0): len(self._look().lane)}

    def start_of(self, _at: Partition) -> int:
        return 0

    def progress(self, job: str) -> dict[Partition, int]:
        world = self._look()
        return {(PAYLOADS if job == "enrich" else EVENTS, 0): world.published[job]}

    def first_at(self, _at: Partition, minute: int) -> int | None:
        payloads = self._world.payloads
        return next((place for place, (came, _) in enumerate(payloads) if came >= minute), None)

    def go_on_from(self, known: dict[Partition, int]) -> None:
        self._next = known.get((LANE, 0), 0)

    def hear(self, ends: dict[Partition, int]) -> Heard:
        begin, stop = self._next, len(self._world.lane)
        if self._world.rng.random() < 0.2:
            stop = self._world.rng.randint(begin, stop)
        self._next = stop
        return Heard(self._world.lane[begin:stop], [], {(LANE, 0): stop}, stop >= ends[LANE, 0])


class _Silent:
    def report(self, *_said: Any, **_numbers: Any) -> None: ...


@pytest.mark.parametrize("loses", [None, 20], ids=["nothing is lost", "one payload is lost"])
def test_in_whatever_order_jobs_and_keeper_go_on_the_ledger_tells_what_was_lost_and_no_more(
    job_settings: JobSettings, monkeypatch: pytest.MonkeyPatch, loses: int | None
) -> None:
    seed = int(os.environ.get("HEADRACE_TEST_SEED", random.randrange(1 << 32)))
    print(f"HEADRACE_TEST_SEED={seed}")
    url = job_settings.postgres_url.get_secret_value()
    events = EventStore(url)
    with store.connect(url, "test") as connection:
        for number in range(SEEDS):
            connection.execute("TRUNCATE headrace.event, headrace.outbox")
            for table in ("journal", "page", "partition", "minute", "lane"):
                connection.execute(f"TRUNCATE headrace.ledger_{table}".encode())
            rng = random.Random(f"{seed} {number}")
            world = World(rng, events, loses)
            monkeypatch.setattr(ledger_keeper, "LedgerLog", lambda *_, w=world: SeenLog(w))
            book = LedgerBook(connection)
            keeper = _keeper(job_settings, book)
            for _ in range(STEPS):
                world.step()
                if rng.random() < 0.5:
                    keeper.keep(book)
                    difference = ledger.balance(*book.totals()[PAYLOADS])["difference"]
                    assert difference <= (loses is not None), f"seed {seed} {number}"
                if rng.random() < 0.03:
                    keeper = _keeper(job_settings, book)
            world.drain()
            monkeypatch.setattr(World, "step", lambda _: None)
            for _ in range(4):
                while keeper.keep(book):
                    pass
            monkeypatch.undo()
            found = ledger.balance(*book.totals()[PAYLOADS])
            assert found == world.expected(), f"seed {seed} {number}"
            minutes = [ledger.balance(*total) for *_, total in book.minutes(0)]
            assert {t: sum(m[t] for m in minutes) for t in ledger.TERMS} == found
    events.close()


def _keeper(settings: JobSettings, book: LedgerBook) -> LedgerKeeper:
    keeper = LedgerKeeper(settings, threading.Event(), _Silent())
    keeper.go_on(book)
    return keeper
