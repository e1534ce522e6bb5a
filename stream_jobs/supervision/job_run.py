"""Runs a job's query, restarts it where it can go on, and tells how it is doing."""

import logging
import time
from collections.abc import Callable, Collection
from contextlib import suppress

from confluent_kafka import KafkaException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from clients.kafka.lag import UNKNOWN, LagReader, unread
from clients.kafka.offsets import LogOffsets
from clients.postgres import store
from shared.errors import (
    AnotherCopyError,
    LaneLeftError,
    NoServerError,
    OtherLogError,
    WaitError,
    WrongViewError,
)
from shared.settings import JobSettings
from shared.timestamps import now_ms
from stream_jobs.guards.breaker import Breaker
from stream_jobs.guards.checkpoint_folder import StoredFolder, checkpoint_of
from stream_jobs.guards.same_topics import SameTopics
from stream_jobs.guards.single_copy import OneCopy
from stream_jobs.guards.standstill import Standstill
from stream_jobs.job_orders.feed import OrderFeed
from stream_jobs.job_orders.standing_order import StandingOrder
from stream_jobs.supervision.driver_task import DriverTask
from stream_jobs.supervision.failure import judge
from stream_jobs.supervision.progress import Progress
from stream_jobs.supervision.status import Report, StatusReporter
from stream_jobs.supervision.work import Work

_log = logging.getLogger(__name__)
_REPORT_EVERY_S = _HOLD_EVERY_S = 2.0
_BACKOFF_S = (1.0, 2.0, 4.0, 8.0, 15.0)
_BELIEVED_AFTER_S, _WELL_AFTER_S = 5.0, 60.0

Build = Callable[[Report], DataStreamWriter]


class JobRun:
    """One job, whatever happens to its query."""

    def __init__(
        self,
        job: str,
        build: Build,
        spark: SparkSession,
        settings: JobSettings,
        offsets: LogOffsets,
        copy: OneCopy,
        driver_task: DriverTask,
        orders: OrderFeed,
        uses: Collection[str] = (),
    ) -> None:
        """`uses`: the topics that it reads or writes, of which partitions may not be added."""
        self.job = job
        self.other_copy = ""  # why this one has to go
        self._build = build
        self._spark = spark
        self._settings = settings
        self._checkpoint = checkpoint_of(settings, job)
        self._order = StandingOrder(job, orders, self._checkpoint)
        self._topics = SameTopics(job, settings, self._checkpoint, offsets, uses)
        self._start_at_s = self._started_at_s = 0.0
        self._report_at_s = self._hold_at_s = 0.0
        self._work = Work(job, copy, driver_task)
        self._failures, self._why_ended = 0, ""
        self._is_the_copy = self._builds = self._rests = False
        self._state, self._detail = "restarting", "starting"
        self._trouble = ""  # of what it does beside its query
        self._offsets = offsets
        self._lag = LagReader(settings.kafka, f"headrace-{job}")
        self._copy, self._driver_task = copy, driver_task
        self._progress = Progress(job, self._checkpoint, copy, driver_task)
        self._standstill = Standstill(job, settings)
        self._breakers = {"kafka": Breaker()}
        self._status = StatusReporter(settings, job)

    def say(self, state: str, detail: str = "", postgres: Breaker | None = None) -> None:
        """May be called from within the job, by whoever knows that it waits."""
        if postgres is not None:
            self._breakers["postgres"] = postgres
        if (state, detail) != (self._state, self._detail):
            _log.info("%s is %s%s", self.job, state, f": {detail}" if detail else "")
            self._state, self._detail = state, detail
            self._report_at_s = 0.0
        if self._builds:
            self._keep_up(time.monotonic())

    def tick(self) -> None:
        now_s = time.monotonic()
        self._keep_up(now_s)
        if not self._work.has_ended():
            if self._state != "failed":
                self.say("restarting", "it is to end, and what it has begun goes on")
            return
        if self.other_copy or self._order.keeps_down(self) or self.other_copy:
            return  # also one that the order's look has found
        why_rests = self._driver_task.rests() if self._state != "failed" else ""
        if why_rests:
            self._rest(why_rests)
        elif self._work.query is None:
            self._rests = False
            if self._state != "failed" and now_s >= self._start_at_s and self._may_begin(now_s):
                self._begin(now_s)
        elif not self._work.query.isActive:
            self._judge_end(now_s)
        else:
            self._recover(now_s - self._started_at_s)
            self._progress.publish(self._work.query)
            if not self._breakers["kafka"].is_open:
                self._progress.publish_ahead()
                self._step_beside()
                self._count_partitions(now_s)
            is_well = self._state == "running" and not self._breakers["kafka"].is_open
            if why := self._standstill.why(self._progress.newest if is_well else now_s):
                self._work.end_query()
                self._fail(why, now_s)

    @property
    def has_failed(self) -> bool:
        return self._state == "failed"

    def end(self, state: str, why: str) -> bool:
        """Whether it works no more. The next query begins as soon as it may, whatever kept this one
        down."""
        self._failures, self._start_at_s, self._rests = 0, 0.0, False
        if has_ended := self._work.end():
            self.say(state, why)
        return has_ended

    def holds_claim(self) -> bool:
        """Asked anew."""
        self._hold()
        return self._is_the_copy and not self._breakers["kafka"].is_open and not self.other_copy

    def _rest(self, why: str) -> None:
        if not self._rests and not self._work.end_query():
            return
        self._failures = 0
        self._rests = True
        self._driver_task.begin_rest()
        self.say("running", why)

    def _count_partitions(self, now_s: float) -> None:
        try:
            self._topics.check_counts(now_s)
        except OtherLogError as error:
            self._work.end_query()
            self.say("failed", str(error))
        except KafkaException:
            pass  # its breaker tells it

    def _step_beside(self) -> None:
        trouble = ""
        try:
            self._driver_task.step()
        except KafkaException as error:
            trouble = error.args[0].str()
        if trouble != self._trouble:
            self._trouble = trouble
            self._report_at_s = 0.0
            _log.info("%s: %s", self.job, f"it may sleep on: {trouble}" if trouble else "is awake")

    def _keep_up(self, now_s: float) -> None:
        if now_s >= self._hold_at_s:
            self._hold_at_s = now_s + _HOLD_EVERY_S
            self._hold()
        if not self.other_copy and now_s >= self._report_at_s:
            self._report_at_s = now_s + _REPORT_EVERY_S
            self._report()

    def _hold(self) -> None:
        asked_s = time.monotonic()
        before = kafka = self._breakers["kafka"]
        try:
            self._is_the_copy = self._copy.hold()
        except AnotherCopyError as error:
            self._give_way(str(error))
            return
        except KafkaException as error:
            kafka = kafka.failed(now_ms(), error.args[0].str())
        else:
            took_s = time.monotonic() - asked_s
            kafka = kafka.answered_in(took_s, self._settings.slow_after_s, now_ms())
        self._breakers["kafka"] = kafka
        if kafka.state != before.state:
            _log.info("%s: the breaker of Kafka is %s %s", self.job, kafka.state, kafka.reason)
            self._report_at_s = 0.0

    def _give_way(self, other_copy: str) -> None:
        _log.error("%s", other_copy)
        self.other_copy, self._is_the_copy = other_copy, False
        self._work.end()

    def _may_begin(self, now_s: float) -> bool:
        """Not against a store that is away, which costs it and this machine more than a probe."""
        postgres = self._breakers.get("postgres", Breaker())
        if postgres.is_open:
            away = store.trouble(self._settings.postgres_url.get_secret_value())
            postgres = postgres.answered() if away is None else postgres.failed(now_ms(), away)
            self._breakers["postgres"] = postgres
            if postgres.is_open:
                self._start_at_s = now_s + postgres.pause_s
                return False
        return self._is_the_copy and not self._breakers["kafka"].is_open

    def _begin(self, now_s: float) -> None:
        self._started_at_s = now_s
        self._progress.begin()
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.job)
        self._builds = True  # which may take long, where a job makes its state anew
        try:
            topics = self._topics.check(self._copy.committed)
            if begins_at := self._driver_task.start():
                self._copy.publish(begins_at)  # before others take what was done for still known
            query = self._build(self.say)
            if not self.other_copy:
                self._work.begin(query)
                self._topics.remember(topics)
        except (LaneLeftError, NoServerError, OtherLogError, WrongViewError) as error:
            if isinstance(error, OtherLogError):
                with suppress(KafkaException):  # then the claim's next renewal tells it
                    self._copy.publish(error.begin_at)  # the old place would skip what is there now
            self.say("failed", str(error))
        except WaitError as error:
            self._fail(f"{type(error).__name__}: {error}", now_s)
        except Exception as error:  # whatever Spark raises here, the others go on
            self._fail(str(error), now_s)
        else:
            if not self._failures or self._state == "rebuilding":
                self.say("running")
        finally:
            self._builds = False

    def _recover(self, age_s: float) -> None:
        """A query that failed before is believed when it has lasted, not when it starts."""
        if self._failures and age_s > _BELIEVED_AFTER_S and self._why_ended == self._detail:
            self.say("running", postgres=Breaker() if "postgres" in self._breakers else None)
        if age_s > _WELL_AFTER_S:
            self._failures = 0

    def _judge_end(self, now_s: float) -> None:
        query = self._work.query
        error = query.exception() if query else None
        self._work.end_query()
        message = str(error) if error else "the query ended by itself"
        self._fail(message, now_s, getattr(getattr(error, "_cause", None), "_stackTrace", ""))

    def _fail(self, message: str, now_s: float, causes: str = "") -> None:
        is_stored = isinstance(self._checkpoint, StoredFolder)
        failure = judge(message, causes, is_stored=is_stored)
        _log.warning("%s ended:\n%s", self.job, message)
        if failure.other_copy:
            self._give_way(failure.reason)
            return
        if failure.stops:
            self.say("failed", failure.reason)
            return
        delay_s = _BACKOFF_S[min(self._failures, len(_BACKOFF_S) - 1)]
        self._failures += 1
        if failure.store_away:
            postgres = self._breakers.get("postgres", Breaker())
            self._breakers["postgres"] = postgres.failed(now_ms(), failure.reason)
            delay_s = self._breakers["postgres"].pause_s
        self._start_at_s = now_s + delay_s
        self._why_ended = failure.reason
        self.say("waiting" if failure.waits else "restarting", failure.reason)

    def _report(self) -> None:
        state, detail, kafka = self._state, self._detail, self._breakers["kafka"]
        self._progress.numbers |= UNKNOWN
        if kafka.is_open:
            if state != "failed":
                state, detail = "waiting", f"Kafka: {kafka.reason}"
        else:
            if self._trouble and state == "running":
                state, detail = "waiting", f"Kafka: {self._trouble}"
            with suppress(KafkaException):
                if not self._rests:
                    waiting = unread(self._offsets.committed().offsets, self._offsets.ranges())
                    self._progress.numbers |= self._lag.lag(waiting).told()
                self._progress.numbers |= self._driver_task.numbers()
        breakers = {name: breaker.told() for name, breaker in self._breakers.items()}
        self._status.report(state, detail, **self._progress.numbers, breakers=breakers)

    def stop(self) -> None:
        self._driver_task.stop()
        if not (self._work.end_query() or self._work.end_query()) or self.other_copy:
            return  # its claim runs out; and what the other one says of the job is true
        with suppress(KafkaException):
            self._copy.release()
        self._status.report("stopped")
        self._status.flush()
