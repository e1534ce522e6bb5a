"""What waits in a bucket of entities, and how retry serves it: see `waiting/protocol.py`."""

import pickle
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import orjson
from pyspark.sql import Row

from clients.kafka.records import Outgoing, Payload
from shared.events import envelope
from shared.events.envelope import Position
from shared.events.oversize_stub import fitted
from shared.events.redelivery import FirstArrival, headers_of
from shared.flow import load_flow
from shared.topic_names import dead_letter_topic, gate_topic
from stream_jobs.enrich.answers import Answers
from stream_jobs.enrich.enrich_payload import Enrich, enricher
from stream_jobs.enrich.master_data_view import MasterView
from stream_jobs.enrich.on_demand_fields import FreshFields
from stream_jobs.enrich.state_look_up import StateLookUp
from stream_jobs.guards.lease import check_lease
from stream_jobs.kafka_io.writing_processor import Handler, dead_letter
from stream_jobs.retry.kept_payloads import KeptPayloads
from stream_jobs.retry.schedule import FOR_EVER_MS, Looks, StoredClock
from stream_jobs.retry.task import RetryTask
from stream_jobs.state.bulk_map_state import Key, States
from stream_jobs.waiting import codec
from stream_jobs.waiting.entry import Entry, Missing, Outcome
from stream_jobs.waiting.gate_view import RipenessView
from stream_jobs.waiting.line import Batch, Close, Line, Open, Park, Send, serve
from stream_jobs.waiting.line_key import is_alone
from stream_jobs.waiting.protocol import ENRICH

STAGE = "retry"
# more would only fill the memory
_LINES_AT_ONCE = 16
# what a bucket tells the driver of a batch: no topic gets it
TOLD_DDL = "look_ms long, woken long, parked long"


class Worker:
    """What looks around in Kafka and the store; once a process."""

    def __init__(self, task: RetryTask) -> None:
        flow = load_flow(task.flow)
        self._states = StateLookUp(task.kafka, flow.looked_at, at_once=True)
        self._answers = Answers(flow, task.registry)
        self._enrich: Enrich = enricher(flow, self._states.find, self._answers.find)
        self._master = MasterView(
            task.kafka, flow.master_tables, task.master_age_max_s, flow.timed_tables
        )
        self._fresh = FreshFields(flow, task.postgres_url, task.slow_after_s)
        self._ripeness = RipenessView(task.kafka, flow)

    def look(self) -> None:
        """At each batch, and again within it: what is seen only grows."""
        self._ripeness.refresh()
        self._master.catch_up()
        self._states.catch_up()
        self._master.refresh()

    def is_ripe(self, place: Position) -> bool:
        return self._ripeness.is_ripe(place)

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def look_ahead(self, payloads: Iterable[Payload]) -> None:
        """At what services say of them, all at once."""
        if self._answers.are_asked_for:  # also for none: what failed before is asked again
            ahead = list(payloads)
            self._answers.look_ahead(self._enrich, ahead, self._fresh.over(self._master, ahead))

    def enrich(self, payload: Payload) -> Sequence[Outgoing]:
        """Never as a first attempt: payloads of others, which went on meanwhile, may have become
        events of the same entity, and fold would take a first attempt that comes behind them for a
        second writing."""
        known = self._fresh.over(self._master, [payload])
        return self._enrich(payload._replace(attempt=max(payload.attempt, 1)), known)


_worker = cache(Worker)


class BucketOfLines(Handler):
    """The lines of all entities whose ids fall into one bucket."""

    def __init__(self, task: RetryTask) -> None:
        self._task = task
        self._next_look_ms: int | None = None

    def init(self, states: States) -> None:
        # one for all: each that is declared takes Spark many milliseconds of each task
        self._states = states.of("kept", "kind", "key", "ident")
        self._looks = Looks(self._states)
        # where nothing is looked up nobody says how fresh it is
        looks_up = bool(load_flow(self._task.flow).master_tables)
        fresh_for_ms = int(self._task.master_stale_after_s * 1000) if looks_up else FOR_EVER_MS
        self._clocks = StoredClock(self._states, fresh_for_ms, self._task.rules)
        self._letters = KeptPayloads(self._states)

    @cached_property
    def _event_topics(self) -> frozenset[str]:
        return frozenset(load_flow(self._task.flow).event_topics)

    @cached_property
    def _ingest_topics(self) -> frozenset[str]:
        return frozenset(load_flow(self._task.flow).ingest_topics)

    def handleInputRows(  # noqa: N802 - Spark's name
        self, _bucket: Any, rows: Iterator[Any], times: Any
    ) -> Iterator[Outgoing | Row]:
        self._looks.begin()
        self._clocks.begin()
        woken: set[str] = set()
        packed: list[bytes] = []
        for row in rows:
            if row.woken is not None:
                woken.update(orjson.loads(row.woken))
            else:
                packed.append(row.packed)
        now_ms = times.getCurrentProcessingTimeInMs()
        self._clock = self._clocks.at(now_ms, codec.as_of(woken))
        lines: dict[str, Line] = {}
        for own in packed:
            yield from self._take([Payload(*fields) for fields in pickle.loads(own)], lines)
        made: Counter[str] = Counter()
        for outgoing in self._serve(now_ms, woken, lines):
            made[outgoing.topic] += 1
            yield outgoing
        self._letters.write()
        self._looks.write()
        self._clocks.keep(self._clock if self._looks.all() else None)
        yield Row(
            look_ms=self._next_look_ms,
            woken=sum(made[topic] for topic in self._event_topics),
            parked=made[dead_letter_topic(ENRICH)],
        )

    def _take(self, records: Sequence[Payload], lines: dict[str, Line]) -> Iterator[Outgoing]:
        read: list[tuple[str, Payload, Entry, bytes]] = []
        for record in records:
            try:
                entry, letter = codec.read(record, self._ingest_topics)
                self._comes_to_wait(entry, record)
                read.append(((record.key or b"").decode(), record, entry, letter))
            except ValueError as error:
                yield _unreadable(record, str(error))
        self._load({key for key, *_ in read}, lines)
        for key, record, entry, letter in read:
            if envelope.find(record.headers, envelope.DISCARDED) is not None:
                for gone in lines[key].discard(entry.place, entry.attempt):
                    self._letters.remove(key, gone)
            elif lines[key].take(entry):
                self._letters.put(key, entry, letter)

    def _comes_to_wait(self, entry: Entry, record: Payload) -> None:
        """It was tried already where it did not go to the lane for another one."""
        entry.taken_ms = self._clock.now_ms
        kind = envelope.text(record.headers, envelope.TYPE)
        if endpoint := load_flow(self._task.flow).endpoint_of(entry.place.topic, kind):
            entry.payload_type = endpoint.payload_type
        if found := codec.not_yet(record.headers):
            policy = self._task.rules.policy_of(entry.payload_type)
            # when enrich found it, however late this is read, or how often: else a pause that has
            # gone by would begin anew
            found_ms = min(record.arrived_ms, self._clock.seen_ms)
            entry.has_to_wait(found, self._clock.now_ms, found_ms, policy)

    def _load(self, keys: Iterable[str], lines: dict[str, Line]) -> None:
        wanted = sorted(set(keys).difference(lines))
        stored = self._states.get([_line(key) for key in wanted])
        for key, raw in zip(wanted, stored, strict=True):
            lines[key] = codec.decode(raw) if raw else Line()

    def _serve(self, now_ms: int, woken: set[str], lines: dict[str, Line]) -> Iterator[Outgoing]:
        orders: dict[str, list[str]] = defaultdict(list)
        for order in codec.orders(sorted(woken)):
            orders[order.key].append(order.what)
        # of many lines this takes long, and each start would ask for it
        is_every = codec.EVERY_LINE in woken and self._clocks.rules_differ
        is_due = {
            key
            for key, look in self._looks.all().items()
            if is_every
            or key in orders
            or look.is_due(now_ms, self._clock.now_ms)
            or not woken.isdisjoint(look.rows)
        }
        keys = [*lines, *sorted(is_due.difference(lines))]
        if keys:
            check_lease(STAGE)
            worker = _worker(self._task)
            worker.look()
            batch = Batch(now_ms, now_ms, self._clock.now_ms, woken, worker.is_ripe)
        for begin in range(0, len(keys), _LINES_AT_ONCE):
            some = keys[begin : begin + _LINES_AT_ONCE]
            self._load(some, lines)
            served = {key: lines.pop(key) for key in some}
            self._letters.look_ahead(served, batch)
            worker.look_ahead(self._letters.tried_next(served, batch))
            for key, line in served.items():
                for what in orders.get(key, ()):
                    line.hurry() if what == "try" else line.give_up()
                yield from self._serve_line(key, line, batch, worker)
            self._keep(served)
        looks = self._looks.all().values()
        old_ms = min((one.old_ms for one in looks if one.old_ms is not None), default=None)
        times = [self._clocks.time_of_day(old_ms, self._clock), *(one.due_ms for one in looks)]
        self._next_look_ms = min((at_ms for at_ms in times if at_ms is not None), default=None)

    def _serve_line(self, key: str, line: Line, batch: Batch, worker: Worker) -> Iterator[Outgoing]:
        made: dict[tuple[Position, int], Sequence[Outgoing]] = {}

        def attempt(entry: Entry) -> Outcome:
            made[entry.ident] = worker.enrich(self._letters.payload(key, entry))
            outcome = codec.outcome_of(made[entry.ident][0])
            if isinstance(outcome, Missing) and outcome.after_ms is not None:
                # it says so now, and the batch began before: it must not be tried too early
                late_ms = max(0, worker.time_ms() - batch.time_ms)
                outcome = outcome._replace(after_ms=outcome.after_ms + late_ms)
            return outcome

        rules = self._task.rules
        if is_alone(key):  # when it is parked, nobody is behind it
            rules = rules._replace(when_parked="go_on")
        for step in serve(line, batch, attempt, rules):
            match step:
                case Send(entry):
                    self._letters.remove(key, entry)
                    yield from made.pop(entry.ident)
                case Park(entry):
                    yield self._dead_letter(key, entry)
                    self._letters.remove(key, entry)  # the dead letter has it
                case Open(told):
                    yield _gate(key, codec.gate_value(told))
                case Close():
                    yield _gate(key, None)

    def _keep(self, served: Mapping[str, Line]) -> None:
        closed = [key for key, line in served.items() if line.closed]
        self._states.remove([_line(key) for key in closed])
        for key in closed:
            self._looks.remove(key)
        kept = {key: line for key, line in served.items() if not line.closed}
        self._states.put({_line(key): codec.encode(line) for key, line in kept.items()})
        for key, line in kept.items():
            self._looks.put(key, line.next_look(self._task.rules))

    def _dead_letter(self, key: str, entry: Entry) -> Outgoing:
        payload = self._letters.payload(key, entry)
        first = FirstArrival(entry.place, payload.arrived_ms, entry.attempt, entry.revision)
        known = headers_of(payload.headers, first)
        headers = envelope.failure_headers(known, ENRICH, entry.place, entry.reason, entry.detail)
        tries = (envelope.TRIES, str(entry.tries).encode())
        letter = fitted(entry.place, payload.key, payload.value, [*headers, tries])
        return Outgoing(dead_letter_topic(ENRICH), *letter)


def _line(key: str) -> Key:
    return "line", key, ""


def _gate(key: str, value: bytes | None) -> Outgoing:
    return Outgoing(gate_topic(ENRICH), key.encode(), value, [])


def _unreadable(record: Payload, detail: str) -> Outgoing:
    own = record.position, record.key, record.value
    return dead_letter(ENRICH, *own, "no_origin", detail, record.headers)
