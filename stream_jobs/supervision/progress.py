"""How far a job is, from what its query says, for all who wait for it."""

import logging
import time
from functools import reduce
from typing import Any

import orjson
from confluent_kafka import KafkaException
from pyspark.sql.streaming.query import StreamingQuery

from clients.kafka.records import Offsets, from_json
from shared.errors import CheckpointsAwayError
from stream_jobs.guards.checkpoint_folder import CheckpointFolder
from stream_jobs.guards.checkpoint_offsets import Ahead, further, nearest, offsets_of
from stream_jobs.guards.single_copy import OneCopy
from stream_jobs.kafka_io.log_ranges import left_of, ranges
from stream_jobs.supervision.driver_task import DriverTask

_log = logging.getLogger(__name__)


class Progress:
    def __init__(
        self, job: str, checkpoint: CheckpointFolder, copy: OneCopy, driver_task: DriverTask
    ) -> None:
        self._job = job
        self._checkpoint = checkpoint
        self._copy = copy
        self._driver_task = driver_task
        self.numbers: dict[str, Any] = {}  # for the job's report
        self._published: Offsets = {}
        self._looked_s = time.monotonic()
        self._idle_since = ""
        self._seen: tuple[str, int, str] | None = None
        self.begin()

    @property
    def newest(self) -> object:
        """Another one with each that Spark tells, also while there is nothing to do."""
        return self._seen

    def begin(self) -> None:
        """With a query, of a checkpoint that may have been lost meanwhile."""
        self._batch_id = self._heard_batch = -1
        self._ahead = Ahead(self._checkpoint)

    def publish(self, query: StreamingQuery) -> None:
        """What the query has said since the last look."""
        try:
            self._publish_news(query)
        except CheckpointsAwayError as error:
            _log.warning("%s: %s", self._job, error)
            self._seen = None  # to be told again

    def _publish_news(self, query: StreamingQuery) -> None:
        progress = self._news(query)
        if progress is None:
            return
        self._hear(query, progress)
        if progress["batchId"] <= self._batch_id:
            return
        if not records_of(progress):
            self._publish_done(progress["timestamp"])
            return  # the batch that it names may have yet to run
        start, end = _offsets(progress, "startOffset"), _offsets(progress, "endOffset")
        its = left_of(start, end, self._published)
        if not self._write(end):
            return
        self._batch_id = progress["batchId"]
        self.numbers["batch_id"] = self._batch_id
        if its:  # else it has stayed, and was counted meanwhile
            spent_ms = progress["durationMs"]
            took_s = max(spent_ms["triggerExecution"] - spent_ms.get("latestOffset", 0), 1) / 1000
            self.numbers["rows_per_s"] = round(sum(one.records for one in its) / took_s, 1)

    def _news(self, query: StreamingQuery) -> Any:
        """The query's last progress, if it was not seen yet: to write it out takes Spark
        milliseconds, and this looks several times a second."""
        told = query._jsq.lastProgress()
        at = None if told is None else (told.runId().toString(), told.batchId(), told.timestamp())
        if at == self._seen:
            return None
        self._seen = at
        return query.lastProgress

    def _hear(self, query: StreamingQuery, last: Any) -> None:
        """What each batch has observed, those included that came between two looks."""
        if last["batchId"] <= self._heard_batch:
            return
        has_missed = last["batchId"] > self._heard_batch + 1
        # all of the recent ones are written out for it: only where it has to be
        recent = query.recentProgress if has_missed else [last]
        for progress in recent:
            # one without records says nothing of the batch that it names, which has yet to run
            if progress["batchId"] > self._heard_batch and records_of(progress):
                self._heard_batch = progress["batchId"]
                for row in progress["observedMetrics"].values():
                    self._driver_task.hear(row.asDict())
        self._heard_batch = max(self._heard_batch, last["batchId"] - 1)

    def publish_ahead(self) -> None:
        """A job that stays at its logs has done more than its batches say, and others wait to hear
        how far it is."""
        since_s, self._looked_s = self._looked_s, time.monotonic()
        before = self._published
        try:
            done = further(before, self._ahead.now())
        except CheckpointsAwayError as error:
            _log.warning("%s: %s", self._job, error)
            return
        if done == before or not self._write(done) or not before:
            return
        records = sum(one.records for one in ranges(before, done))
        self.numbers["rows_per_s"] = round(records / (self._looked_s - since_s), 1)

    def _write(self, offsets: Offsets) -> bool:
        offsets = further(offsets, self._ahead.now())
        try:
            self._copy.publish(offsets)
        except KafkaException as error:
            _log.warning("%s could not publish its offsets: %s", self._job, error)
            self._seen = None  # to be told again
            return False
        self._published = offsets
        return True

    def _publish_done(self, told_at: str) -> None:
        """Publishes that a batch is done whose progress nobody saw, because this copy is new or the
        next one came at once: others wait to hear how far the job is."""
        if told_at == self._idle_since:
            return
        done = offsets_of(self._checkpoint).done
        if not done or done == self._published or self._write(done):
            self._idle_since = told_at


def records_of(progress: Any) -> int:
    """The records of the batch, as its offsets say: what a job did ahead of them is not in them."""
    return sum(
        one.records
        for source in progress["sources"]
        for one in ranges(_of_source(source, "startOffset"), _of_source(source, "endOffset"))
    )


def _offsets(progress: Any, which: str) -> Offsets:
    """The offsets of all that the query reads."""
    return reduce(nearest, (_of_source(one, which) for one in progress["sources"]), {})


def _of_source(source: Any, which: str) -> Offsets:
    told = source[which]
    return from_json((orjson.loads(told) if isinstance(told, str) else told) or {})
