"""The lane of enrich -> event topics, each entity in its order; see `waiting/protocol.py`.

What waits is kept by a hash bucket of its entity. A wake (`waker.py`) goes to all of them, with the
rows of master data that have come: a payload may wait for a row of any key. Each bucket that was
served tells when its next look is due, by which the waker knows when to wake it.
"""

import logging
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
from confluent_kafka import Message
from pyspark.sql import Column, DataFrame, GroupedData, Row, SparkSession, functions
from pyspark.sql.streaming.readwriter import DataStreamWriter

from clients.kafka.messages import payload_of
from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Offsets, Outgoing, Payload
from shared.consumer_groups import of_job
from shared.events import envelope
from shared.events.envelope import Position
from shared.events.redelivery import First, headers_of
from shared.events.stub import fitted
from shared.flow import load_flow
from shared.kafka_access import KafkaAccess
from shared.retry_policy import POLICIES, RetryPolicy, WhenParked
from shared.settings import JobSettings
from shared.topology import (
    Flow,
    dead_letter_topic,
    gate_topic,
    retry_topic,
)
from stream_jobs.enrich.decide import Enrich, enricher
from stream_jobs.enrich.master_data_view import MasterView
from stream_jobs.enrich.on_demand_fields import FreshFields
from stream_jobs.guards import checkpoint_identity
from stream_jobs.guards.lease import check_lease
from stream_jobs.retry.kept_clock import KeptClock
from stream_jobs.retry.kept_payloads import KeptLetters
from stream_jobs.retry.schedule import Look, Looks
from stream_jobs.source.log_source import read_logs, written_by_its_work
from stream_jobs.source.topic_writer import WriterOf
from stream_jobs.source.writing_processor import Handler, Written
from stream_jobs.state.buckets import bucket_of
from stream_jobs.state.bulk_map_state import Key, States
from stream_jobs.supervision.status import Say
from stream_jobs.supervision.warm_up import empty_buckets
from stream_jobs.waiting import codec
from stream_jobs.waiting.gate_view import RipenessView, first_needed
from stream_jobs.waiting.protocol import (
    ENRICH,
    Batch,
    Close,
    Entry,
    Line,
    Open,
    Outcome,
    Park,
    Send,
    serve,
)

_log = logging.getLogger(__name__)
STAGE = "retry"
# all of them are told of each row that comes: few. Fixed for the life of a checkpoint
BUCKETS = range(16)
# more would only fill the memory
_LINES_AT_ONCE = 16
# what a batch observes: how many of them have told of their next look, and the first of these
LOOKS, LOOK_MS = "looks", "look_ms"
# an entity that sends while it waits would have a batch follow the other
_SELDOM_MS = 1000
# of the jobs that have no task running Spark serves the first by name. By its own name this one, of
# little work, would starve behind all others for as long as they have a backlog
_POOL = "0-retry"
_PACKED_DDL = "bucket int, packed binary, woken binary"
_PACKED = pa.schema([("bucket", pa.int32()), ("packed", pa.binary()), ("woken", pa.binary())])
# what a bucket tells the driver of a batch: no topic gets it
_TOLD_DDL = "look_ms long, woken long, parked long"


class RetryTask(NamedTuple):
    """What a worker process needs to know; it builds the rest once and keeps it."""

    flow: str
    kafka: KafkaAccess
    master_age_max_s: float
    postgres_url: str
    slow_after_s: float
    waits_max_s: float
    when_parked: WhenParked
    master_stale_after_s: float
    waiting_per_entity_max: int

    @property
    def policy(self) -> RetryPolicy:
        return POLICIES[ENRICH]._replace(
            age_max_s=self.waits_max_s,
            when_parked=self.when_parked,
            line_max=self.waiting_per_entity_max,
        )


class Worker:
    """What looks around in Kafka and the store; once a process."""

    def __init__(self, task: RetryTask) -> None:
        flow = load_flow(task.flow)
        self._enrich: Enrich = enricher(flow)
        self._master = MasterView(task.kafka, flow.master_tables, task.master_age_max_s)
        self._fresh = FreshFields(flow, task.postgres_url, task.slow_after_s)
        self._ripeness = RipenessView(task.kafka, flow)

    def look(self) -> None:
        """At each batch, and again within it: what is seen only grows."""
        self._ripeness.refresh()
        self._master.catch_up()
        self._master.refresh()

    def is_ripe(self, place: Position) -> bool:
        return self._ripeness.is_ripe(place)

    def enrich(self, payload: Payload) -> Outgoing:
        known = self._fresh.over(self._master, [payload])
        outgoing = self._enrich(payload, known)
        if outgoing.key != payload.key and not payload.attempt:
            # an event of another entity: its order among that one's is not kept here, so the fold
            # must not take it for a second writing
            outgoing = self._enrich(payload._replace(attempt=1), known)
        return outgoing


@cache
def _worker(task: RetryTask) -> Worker:
    return Worker(task)


class BucketOfLines(Handler):
    """The lines of all entities whose ids fall into one bucket."""

    def __init__(self, task: RetryTask) -> None:
        self._task = task
        self._next_look_ms: int | None = None

    def init(self, states: States) -> None:
        # one for all: each that is declared takes Spark many milliseconds of each task
        self._states = states.of("kept", "kind", "key", "ident")
        self._looks = Looks(self._states)
        self._clocks = KeptClock(self._states, int(self._task.master_stale_after_s * 1000))
        self._letters = KeptLetters(self._states)

    @cached_property
    def _event_topics(self) -> frozenset[str]:
        return frozenset(row.topic for row in load_flow(self._task.flow).event_types)

    @cached_property
    def _ingest_topics(self) -> frozenset[str]:
        return frozenset(row.topic for row in load_flow(self._task.flow).endpoints)

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
            yield from self._take(list(_unpack(own)), lines)
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
                entry.taken_ms = self._clock.now_ms
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

    def _load(self, keys: Iterable[str], lines: dict[str, Line]) -> None:
        wanted = sorted(set(keys).difference(lines))
        stored = self._states.get([_line(key) for key in wanted])
        for key, raw in zip(wanted, stored, strict=True):
            lines[key] = codec.decode(raw) if raw else Line()

    def _serve(self, now_ms: int, woken: set[str], lines: dict[str, Line]) -> Iterator[Outgoing]:
        is_due = {
            key
            for key, (at_ms, rows) in self._looks.all().items()
            if codec.EVERY_LINE in woken
            or (at_ms is not None and at_ms <= self._clock.now_ms)
            or not woken.isdisjoint(rows)
        }
        keys = [*lines, *sorted(is_due.difference(lines))]
        if keys:
            check_lease(STAGE)
            worker = _worker(self._task)
            worker.look()
            batch = Batch(now_ms, self._clock.now_ms, woken, worker.is_ripe)
        for begin in range(0, len(keys), _LINES_AT_ONCE):
            some = keys[begin : begin + _LINES_AT_ONCE]
            self._load(some, lines)
            served = {key: lines.pop(key) for key in some}
            self._letters.look_ahead(served, batch)
            for key, line in served.items():
                yield from self._serve_line(key, line, batch, worker)
            self._keep(served)
        due = [look.at_ms for look in self._looks.all().values() if look.at_ms is not None]
        self._next_look_ms = self._clocks.told(min(due, default=None), self._clock)

    def _serve_line(self, key: str, line: Line, batch: Batch, worker: Worker) -> Iterator[Outgoing]:
        policy = self._task.policy
        made: dict[tuple[Position, int], Outgoing] = {}

        def attempt(entry: Entry) -> Outcome:
            outgoing = worker.enrich(self._letters.payload(key, entry))
            made[entry.ident] = outgoing
            return codec.outcome_of(outgoing)

        for step in serve(line, batch, attempt, policy):
            match step:
                case Send(entry):
                    self._letters.remove(key, entry)
                    yield made.pop(entry.ident)
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
            self._looks.put(key, Look(line.next_look(self._task.policy), line.rows()))

    def _dead_letter(self, key: str, entry: Entry) -> Outgoing:
        payload = self._letters.payload(key, entry)
        first = First(entry.place, payload.arrived_ms, entry.attempt, entry.revision)
        known = headers_of(payload.headers, first)
        headers = envelope.failure_headers(known, ENRICH, entry.place, entry.reason, entry.detail)
        tries = (envelope.TRIES, str(entry.tries).encode())
        topic = dead_letter_topic(ENRICH)
        letter = fitted(entry.place, payload.key, payload.value, [*headers, tries])
        return Outgoing(topic, *letter)


def _line(key: str) -> Key:
    return "line", key, ""


def _gate(key: str, value: bytes | None) -> Outgoing:
    return Outgoing(gate_topic(ENRICH), key.encode(), value, [])


def _unreadable(record: Payload, detail: str) -> Outgoing:
    failure = envelope.failure_headers(record.headers, ENRICH, record.position, "no_origin", detail)
    letter = fitted(record.position, record.key, record.value, failure)
    return Outgoing(dead_letter_topic(ENRICH), *letter)


def pack(chunks: Iterator[list[Message]]) -> Iterator[pa.RecordBatch]:
    """Records of the lane and wakes -> for each bucket a row with its records, and, if it is woken,
    one with the rows that have come."""
    lane = retry_topic(ENRICH)
    for chunk in chunks:
        records: dict[int, list[Payload]] = {}
        wakes: list[bytes | None] = []
        for message in chunk:
            if message.topic() == lane:
                bucket = bucket_of(message.key(), BUCKETS)
                records.setdefault(bucket, []).append(payload_of(message))
            else:
                wakes.append(message.value())
        names, packed = list(records), [_packed(own) for own in records.values()]
        to_wake = list(BUCKETS) if wakes else []
        woken = orjson.dumps(sorted({row for wake in wakes for row in codec.rows_of_wake(wake)}))
        columns = [
            names + to_wake,
            packed + [None] * len(to_wake),
            [None] * len(names) + [woken] * len(to_wake),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_PACKED)


def _packed(own: Sequence[Payload]) -> bytes:
    return pickle.dumps([tuple(payload) for payload in own], pickle.HIGHEST_PROTOCOL)


def _unpack(packed: bytes) -> Iterator[Payload]:
    for payload in pickle.loads(packed):
        yield Payload(*payload)


def transform(packed: GroupedData, settings: JobSettings) -> DataFrame:
    return packed.transformWithState(
        Written(BucketOfLines(task(settings)), WriterOf.job_of(STAGE, settings)),
        _TOLD_DDL,
        outputMode="update",
        # for the batch's time, which is the same where it runs again
        timeMode="processingTime",
    )


def on_nothing(spark: SparkSession, settings: JobSettings) -> DataFrame:
    return transform(empty_buckets(spark, "cast(NULL AS binary) AS woken"), settings)


def task(settings: JobSettings) -> RetryTask:
    return RetryTask(
        settings.flow,
        settings.kafka,
        settings.master_age_max_s,
        settings.postgres_url.get_secret_value(),
        settings.slow_after_s,
        settings.waits_max_s,
        settings.when_parked,
        settings.master_stale_after_s,
        settings.waiting_per_entity_max,
    )


def _observed() -> list[Column]:
    """Of each batch: when to look again, and the lane's numbers."""
    return [
        functions.expr(f"count(*) AS {LOOKS}"),
        functions.expr(f"min(look_ms) AS {LOOK_MS}"),
        functions.expr("sum(woken) AS woken"),
        functions.expr("sum(parked) AS parked"),
    ]


def start(settings: JobSettings) -> Offsets | None:
    """Where a query begins whose checkpoint is lost, or does not fit: with what is not done with of
    the lane."""
    checkpoint, identity = settings.checkpoints / STAGE, checkpoint_identity.identity(settings, {})
    why = checkpoint_identity.why_not(checkpoint, identity)
    if why is None:
        return None
    job = next(job for job in load_flow(settings.flow).jobs() if job.name == STAGE)
    group = LogOffsets(settings.kafka, of_job(STAGE), job.ignited_by)
    try:
        passed, ranges = group.committed().offsets, group.ranges()
    finally:
        group.close()
    needed = first_needed(settings.kafka)
    offsets: Offsets = {}
    for (topic, partition), its in ranges.items():
        if topic == retry_topic(ENRICH):
            at = passed[topic][partition]
            at = max(its.start, min(at, needed.get(partition, at)))
        else:
            at = its.end
        offsets.setdefault(topic, {})[partition] = at
    if checkpoint.exists():
        _log.info("retry begins with what waits in its lane: %s", why)
    checkpoint_identity.begin(checkpoint, identity)
    return offsets


def build(spark: SparkSession, settings: JobSettings, flow: Flow, _say: Say) -> DataStreamWriter:
    job = next(job for job in flow.jobs() if job.name == STAGE)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
    packed = read_logs(
        spark,
        settings,
        STAGE,
        job.ignited_by,
        pack,
        _PACKED_DDL,
        start(settings),
        at_most_every_ms=_SELDOM_MS,
    )
    told = transform(packed.groupBy("bucket"), settings).observe(STAGE, *_observed())
    return written_by_its_work(told, settings, STAGE)
