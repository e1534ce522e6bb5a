"""event, completion and state topics -> webhooks: each event to the hooks that ask for it.

A task that reads the topics finds for each record the hooks that it is for, and the shuffle brings
all that a hook is to get of an entity to one bucket, which sends it (`bucket.py`). What waits is
in Spark's state. A record of the wake topic has a batch look at what is due (`hook_watch.py`), or
brings an answer that came too late for the batch that had asked.
"""

import pickle
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial

import pyarrow as pa
from confluent_kafka import Message
from pyspark.sql import DataFrame, GroupedData, SparkSession, functions
from pyspark.sql.streaming.readwriter import DataStreamWriter

from clients.kafka.messages import headers_of, position_of
from shared.events import envelope
from shared.flow_table import Flow
from shared.forwarding.cloud_event import CloudEvent
from shared.forwarding.state_event import state_event
from shared.forwarding.takers import Takers
from shared.settings import JobSettings
from shared.topic_names import again_topic, wake_topic
from stream_jobs.forward import beginning
from stream_jobs.forward.at_most_once import begun
from stream_jobs.forward.bucket import TOLD_DDL, BucketOfDeliveries, ForwardTask
from stream_jobs.forward.delivery import STAGE, Delivery, Try, read_answer
from stream_jobs.forward.hook_feed import FeedTask, hook_feed
from stream_jobs.forward.sender import SenderTask
from stream_jobs.guards.lease import check_lease
from stream_jobs.kafka_io.log_source import read_logs, written_by_its_work
from stream_jobs.kafka_io.topic_writer import WriterOf
from stream_jobs.kafka_io.writing_processor import WritingProcessor
from stream_jobs.state.buckets import bucket_of, buckets_of
from stream_jobs.supervision.status import Report

LOOKS, LOOK_MS = "looks", "look_ms"
# of a partition: those of one would wait for each other's servers
_BUCKETS = 1
_AT_MOST_EVERY_MS = 200
_PACKED_DDL = "bucket int, packed binary"
_PACKED = pa.schema([("bucket", pa.int32()), ("packed", pa.binary())])


def buckets(settings: JobSettings) -> tuple[int, ...]:
    return buckets_of(settings.state_partitions, _BUCKETS)


def pack(
    chunks: Iterator[list[Message]],
    feed: FeedTask,
    its_buckets: tuple[int, ...],
    states: Mapping[str, str],
) -> Iterator[pa.RecordBatch]:
    """For each bucket that has something to do a row: deliveries, and answers. `states`: topics of
    snapshots, and whose these are."""
    for chunk in chunks:
        check_lease(STAGE)
        deliveries: dict[int, list[bytes]] = defaultdict(list)
        answers: dict[int, list[tuple[str, Try]]] = defaultdict(list)
        hooks = hook_feed(feed).look()
        takers = Takers(hook for hook in hooks.all() if hooks.takes(hook))
        for message in chunk:
            if message.topic() == wake_topic(STAGE):
                told = read_answer(message.value())
                if told is not None:
                    bucket, line, of = told
                    answers[bucket].append((line, of))
                else:
                    for bucket in its_buckets:
                        answers[bucket] += ()
                continue
            for delivery in _deliveries(message, takers, states):
                share = delivery.share(hooks.get(delivery.hook))
                deliveries[bucket_of(share, its_buckets)].append(delivery.pack())
        names = sorted({*deliveries, *answers})
        packed = [pickle.dumps((deliveries[name], answers[name])) for name in names]
        yield pa.RecordBatch.from_arrays([names, packed], schema=_PACKED)


def _deliveries(message: Message, takers: Takers, states: Mapping[str, str]) -> Iterator[Delivery]:
    headers, arrived_ms = headers_of(message) or [], message.timestamp()[1]
    place, key, value = position_of(message), message.key(), message.value()
    if message.topic() == again_topic(STAGE):
        # be there a hook of that name or not: its bucket tells it
        names = [name] if (name := envelope.text(headers, envelope.HOOK)) else []
    else:
        if entity := states.get(place.topic):
            if not takers.any_of("states"):
                return
            made = state_event(entity, place, key, value, arrived_ms)
            if made is None:
                return
            value, headers = made
        its_takers = takers.of(CloudEvent(key, value, headers))
        names = [hook.name for hook in its_takers if arrived_ms >= hook.made_ms]
    for name in names:
        yield Delivery(name, place, key, value, headers, arrived_ms)


def transform(packed: GroupedData, settings: JobSettings) -> DataFrame:
    task = ForwardTask(
        feed_task(settings),
        SenderTask(settings.kafka, settings.hook_hosts, len(buckets(settings)), settings.mail),
        begun(settings),
    )
    return packed.transformWithState(
        WritingProcessor(BucketOfDeliveries(task), WriterOf.job_of(STAGE, settings)),
        TOLD_DDL,
        outputMode="update",
        timeMode="none",
    )


def feed_task(settings: JobSettings) -> FeedTask:
    return FeedTask(settings.kafka, settings.hooks_key_path.absolute())


def build(spark: SparkSession, settings: JobSettings, flow: Flow, _say: Report) -> DataStreamWriter:
    job = flow.job(STAGE)
    packed = read_logs(
        spark,
        settings,
        STAGE,
        job.ignited_by,
        partial(
            pack,
            feed=feed_task(settings),
            its_buckets=buckets(settings),
            states=flow.state_by_topic,
        ),
        _PACKED_DDL,
        beginning.start(settings, flow),
        at_most_every_ms=_AT_MOST_EVERY_MS,
    )
    told = transform(packed.groupBy("bucket"), settings).observe(
        STAGE, functions.expr(f"count(*) AS {LOOKS}"), functions.expr(f"min(look_ms) AS {LOOK_MS}")
    )
    return written_by_its_work(told, settings, STAGE)
