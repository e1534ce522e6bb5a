"""A bucket's deliveries in Spark's state while they wait; what a batch does with them is in
`batch.py`. What gets through in the batch that brings it never touches the state."""

import pickle
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from pyspark.sql import Row

from clients.kafka.records import Outgoing
from shared.topic_names import gate_topic
from stream_jobs.forward.at_most_once import Begun, runs_again
from stream_jobs.forward.batch import Batch
from stream_jobs.forward.bucket_state import Kept
from stream_jobs.forward.delivery import STAGE, Delivery, gate_value
from stream_jobs.forward.hook_feed import FeedTask, hook_feed
from stream_jobs.forward.sender import Sender, SenderTask, sender
from stream_jobs.guards.lease import check_lease
from stream_jobs.kafka_io.writing_processor import Handler
from stream_jobs.state.bulk_map_state import States

# what a bucket tells the driver of a batch: no topic gets it
TOLD_DDL = "look_ms long"


class ForwardTask(NamedTuple):
    """What a worker process needs to know; it builds the rest once and keeps it."""

    feed: FeedTask
    sender: SenderTask
    begun: Begun = Begun()


class BucketOfDeliveries(Handler):
    def __init__(self, task: ForwardTask) -> None:
        self._task = task

    def init(self, states: States) -> None:
        self._kept = Kept.of(states)

    @cached_property
    def _sender(self) -> Sender:
        return sender(self._task.sender)

    def handleInputRows(  # noqa: N802 - Spark's name
        self, bucket: Any, rows: Iterator[Any], _times: Any
    ) -> Iterator[Outgoing | Row]:
        check_lease(STAGE)
        came = [pickle.loads(row.packed) for row in rows]
        feed, begun = hook_feed(self._task.feed), self._task.begun
        batch = Batch(bucket[0], feed, self._kept, self._sender, begun)
        told = batch.waiting.told()
        yield from batch.begin()
        for _, answers in came:
            yield from batch.hear(answers)
        arrived = [Delivery.unpack(raw) for deliveries, _ in came for raw in deliveries]
        yield from batch.take(sorted(arrived, key=lambda one: one.place))
        if runs_again(begun):
            yield from batch.leave_out()
        yield from batch.send()
        look_ms = batch.end()
        once = {hook.name for hook in batch.hooks.all() if hook.is_at_most_once}
        is_more = self._kept.sent.forget_others(once)
        self._kept.write(batch.waiting)
        now = batch.waiting.told()
        # a gate may be older than this state, so whoever only looks clears it
        if now != told or (now is None and not arrived):
            value = None if now is None else gate_value(*now)
            yield Outgoing(gate_topic(STAGE), str(bucket[0]).encode(), value, [])
        yield Row(look_ms=0 if is_more else look_ms)
