"""state topics of members -> state topics of aggregates: adds up what members share.

Two groupings in one query: by the members' bucket, where the latest share of each is kept, and by
the aggregate, where the buckets' parts are. Both are on the same checkpoint, so a part is never
counted twice; the version of a member's snapshot guards against older ones.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import orjson
from pyspark.sql import DataFrame, GroupedData, Row, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Outgoing
from clients.kafka.write import publish
from shared.consumer_groups import of_job
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.folding import snapshot
from shared.folding.code_fingerprint import fold_fingerprint
from shared.model import Aggregate
from shared.settings import JobSettings
from shared.user_code import describe_error
from stream_jobs.aggregate import sums
from stream_jobs.aggregate.empty_aggregates import emptied
from stream_jobs.aggregate.sums import Members, Part, Total
from stream_jobs.guards import checkpoint_identity
from stream_jobs.guards.checkpoint_folder import checkpoint_of
from stream_jobs.guards.lease import check_lease
from stream_jobs.kafka_io.log_source import SELDOM_MS, read_logs, written_by_its_work
from stream_jobs.kafka_io.topic_writer import WriterOf
from stream_jobs.kafka_io.writing_processor import Handler, WritingProcessor, dead_letter
from stream_jobs.state.buckets import PACKED_DDL, bucket_of, buckets_of, pack_by_bucket, unpack
from stream_jobs.state.bulk_map_state import Key, States
from stream_jobs.supervision.status import Report
from stream_jobs.supervision.warm_up import Nothing

STAGE = "aggregate"
# two groupings in one query are allowed in this mode only; here the modes do not differ
OUTPUT_MODE = "append"
# of a partition: where a member has changed, all of its bucket are read
_BUCKETS = 32
# the part of an aggregate that its members in one bucket are
_PART_DDL = "bucket int, aggregate string, id string, member_bucket string, part binary"
_dead_letter = partial(dead_letter, STAGE)


class MemberBucket(Handler):
    """The latest shares of all members whose ids fall into one bucket."""

    def __init__(self, flow: str, buckets: Sequence[int]) -> None:
        self._flow_reference = flow
        self._buckets = buckets  # of the aggregates

    def init(self, states: States) -> None:
        self._members = states.of("members", "aggregate")

    @cached_property
    def _aggregates_by_topic(self) -> dict[str, list[Aggregate]]:
        flow, by_topic = load_flow(self._flow_reference), defaultdict(list)
        topics = {entity.name: entity.topic for entity in flow.entities}
        for aggregate in flow.aggregates:
            by_topic[topics[aggregate.members]].append(aggregate)
        return by_topic

    def handleInputRows(  # noqa: N802 - Spark's name
        self, bucket: Any, rows: Iterator[Any], _timers: Any
    ) -> Iterator[Row | Outgoing]:
        check_lease(STAGE)
        # in log order: a null has no version that would tell its place
        records = sorted(record for row in rows for record in unpack(row.packed))
        members = self._stored(
            [
                aggregate
                for topic in {position.topic for position, _, _ in records}
                for aggregate in self._aggregates_by_topic[topic]
            ]
        )
        changed: dict[Aggregate, set[str]] = defaultdict(set)
        for position, key, value in records:
            try:
                member = sums.member_state(key, value)
            except ValueError as error:
                yield _dead_letter(position, key, value, "no_snapshot", str(error))
                continue
            for aggregate in self._aggregates_by_topic[position.topic]:
                try:
                    changed[aggregate] |= sums.take(aggregate, members[aggregate], member)
                except Exception as error:  # a share is a user's code
                    changed[aggregate] |= sums.leave(members[aggregate], member)
                    detail = f"{aggregate.name}: {describe_error(error, aggregate.share)}"
                    yield _dead_letter(position, key, value, "share_failed", detail)
        self._members.put({(of.name,): _json(latest) for of, latest in members.items()})
        for aggregate, latest in members.items():
            for of, part in sums.parts(aggregate, latest, changed[aggregate]):
                yield Row(
                    bucket=bucket_of(f"{aggregate.name}/{of}".encode(), self._buckets),
                    aggregate=aggregate.name,
                    id=of,
                    member_bucket=str(bucket[0]),
                    part=_json(part),
                )

    def _stored(self, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Members]:
        stored = self._members.get([(aggregate.name,) for aggregate in aggregates])
        return {
            aggregate: sums.members_from(orjson.loads(raw)) if raw else {}
            for aggregate, raw in zip(aggregates, stored, strict=True)
        }


class AggregateBucket(Handler):
    """The parts of all aggregates whose ids fall into one bucket, and what they add up to."""

    def __init__(self, flow: str, versions_before: int) -> None:
        self._flow_reference = flow
        self._versions_before = versions_before

    def init(self, states: States) -> None:
        self._totals = states.of("totals", "aggregate", "id")

    @cached_property
    def _aggregates(self) -> dict[str, tuple[Aggregate, str]]:
        """The aggregates by name, with the fingerprint of their code."""
        aggregates = load_flow(self._flow_reference).aggregates
        return {row.name: (row, fold_fingerprint(row.add)) for row in aggregates}

    def handleInputRows(  # noqa: N802 - Spark's name
        self, _bucket: Any, rows: Iterator[Any], _timers: Any
    ) -> Iterator[Outgoing]:
        check_lease(STAGE)
        changes: dict[tuple[str, str], list[tuple[str, Part | None]]] = defaultdict(list)
        for row in rows:
            part = sums.part_from(orjson.loads(row.part))
            changes[row.aggregate, row.id].append((row.member_bucket, part))
        renewed: dict[Key, bytes] = {}
        for (key, own), raw in zip(changes.items(), self._totals.get(list(changes)), strict=True):
            before = sums.total_from(orjson.loads(raw)) if raw else None
            total = sums.renew(before or Total(self._versions_before, {}), own)
            renewed[key] = _json(total)
            yield self._snapshot(*key, total)
        self._totals.put(renewed)

    def _snapshot(self, name: str, aggregate_id: str, total: Total) -> Outgoing:
        aggregate, fingerprint = self._aggregates[name]
        event_time_ms, state = sums.state_of(aggregate, aggregate_id, total)
        value = snapshot.encode_total(state, total.version, event_time_ms, fingerprint)
        return Outgoing(aggregate.topic, aggregate_id.encode(), value, [])


def _json(value: Any) -> bytes:
    return orjson.dumps(value, default=tuple)  # it takes no named ones


def transform(snapshots: GroupedData, settings: JobSettings, versions_before: int) -> DataFrame:
    writer = WriterOf.job_of(STAGE, settings)
    parts = snapshots.transformWithState(
        WritingProcessor(
            MemberBucket(settings.flow, buckets_of(settings.state_partitions, _BUCKETS)), writer
        ),
        _PART_DDL,
        outputMode="append",
        timeMode="none",
    )
    return parts.groupBy("bucket").transformWithState(
        WritingProcessor(AggregateBucket(settings.flow, versions_before), writer),
        "nothing int",
        outputMode="append",
        timeMode="none",
    )


def on_nothing(nothing: Nothing, settings: JobSettings) -> DataFrame:
    return transform(nothing.buckets(), settings, versions_before=0)


def build(spark: SparkSession, settings: JobSettings, flow: Flow, say: Report) -> DataStreamWriter:
    checkpoint = checkpoint_of(settings, STAGE)
    code = {row.name: fold_fingerprint(row.add, row.share, row.total) for row in flow.aggregates}
    identity = checkpoint_identity.identity(settings, code)
    if why := checkpoint_identity.why_not(checkpoint, identity):
        # whatever it needs stands on the compacted topics of its members
        if _versions_before(settings, flow):
            say("rebuilding", f"{why}: adds up the snapshots of all members again")
            publish(settings.kafka, emptied(settings, flow))
        checkpoint_identity.begin_anew(checkpoint, identity)
    pack = partial(pack_by_bucket, buckets=buckets_of(settings.state_partitions, _BUCKETS))
    snapshots = read_logs(
        spark,
        settings,
        STAGE,
        flow.member_topics,
        pack,
        PACKED_DDL,
        at_most_every_ms=SELDOM_MS,
    )
    totals = transform(snapshots.groupBy("bucket"), settings, _versions_before(settings, flow))
    return written_by_its_work(totals, settings, STAGE).outputMode(OUTPUT_MODE)


def _versions_before(settings: JobSettings, flow: Flow) -> int:
    """No aggregate has a higher version yet: each was a record of its own, counted from such a
    number. Where the checkpoint is lost, what is added up anew must not look older to readers
    than what they have."""
    topics = [aggregate.topic for aggregate in flow.aggregates]
    with LogOffsets(settings.kafka, of_job(STAGE), topics) as log:
        return sum(log.ends().values())
