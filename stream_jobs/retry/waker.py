"""What makes retry run a batch: a row of master data that somebody may wait for, or a time.

Each wake is a record of a topic, so that a batch that runs again sees the same ones. Spark's own
timers would run a batch at every trigger, whether anything waits or not.

Nothing sleeps for ever. A row counts as read when its wake is acknowledged; only where nothing
waits it needs none. Each batch says when the next look is due. A query that starts looks at all
that waits, and while anything waits it is woken now and then, whatever was said.
"""

import time
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from clients.kafka.connect import writer
from clients.kafka.follow import LogFollower
from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Offsets, by_partition
from shared.consumer_groups import of_job
from shared.flow_table import Flow
from shared.master_data.timed_key import timed_key
from shared.settings import JobSettings
from shared.topic_names import RELAY_HEARTBEAT_KEY, master_topic, wake_topic
from stream_jobs.enrich.master_data_view import confirmed_ms
from stream_jobs.retry import job as retry
from stream_jobs.retry.lane_trim import LaneTrim
from stream_jobs.supervision.driver_task import DriverTask
from stream_jobs.waiting.codec import EVERY_LINE, row, wake_value
from stream_jobs.waiting.gate_view import LaneView

_ROWS_AT_ONCE = 1_000
_READ_WITHIN_S = 1.0
_ANSWER_S = 5.0
_KEEP_EVERY_S = 10.0
_WAKE_AT_LEAST_EVERY_S = 60.0
_TRIM_EVERY_S = 600.0
_DAY_MS = 86_400_000
_NEVER_MS = 2**62
_TABLE_BEGINS, _TABLE_ENDS = master_topic("/").split("/")


class Waker(DriverTask):
    def __init__(self, settings: JobSettings, flow: Flow) -> None:
        self._settings = settings
        masters = [master_topic(table) for table in flow.master_tables]
        self._master = LogFollower(settings.kafka, of_job("wake"), masters)
        self._read = LogOffsets(settings.kafka, of_job("wake"), masters)
        self._lane = LaneView(settings, flow)
        self._trims = LaneTrim(settings, flow.ingest_retention_days * _DAY_MS)
        self._trim_at_s = 0.0
        options = {
            "enable.idempotence": False,  # a wake that is written twice does no harm
            "message.timeout.ms": int(_ANSWER_S * 1000),
        }
        self._producer = writer(settings.kafka, options)
        self._as_of_ms: dict[str, int] = {}  # by topic, since this process follows it
        self._masters = masters
        self._timed = flow.timed_tables
        self._rows: dict[str, None] = {}  # which have come, and have woken nobody yet
        self._look_ms = 0
        self._look_all_the_same_s = 0.0
        self._follows = False
        self._keep_at_s = 0.0
        self._counts: Counter[str] = Counter()

    def start(self) -> Offsets | None:
        self._look_ms = 0
        self._rows[EVERY_LINE] = None
        return retry.start(self._settings)

    def hear(self, observed: Mapping[str, int | None]) -> None:
        told = dict(observed)
        looks, look_ms = told.pop(retry.LOOKS), told.pop(retry.LOOK_MS)
        look_ms = _NEVER_MS if look_ms is None else look_ms
        # what was woken has told of all that waits
        self._look_ms = look_ms if looks == len(retry.BUCKETS) else min(look_ms, self._look_ms)
        self._counts.update({name: number or 0 for name, number in told.items()})

    def step(self) -> None:
        trouble = None
        try:
            self._follow()
        except KafkaException as error:  # or it is not at the end yet: what is due cannot wait
            trouble = error
        if self._rows and not self._lane.somebody_waits():
            self._rows.clear()
        now_ms = time.time_ns() // 1_000_000
        if self._rows or now_ms >= self._look_ms or self._is_long_ago():
            self._wake()
        if not self._rows and time.monotonic() >= self._keep_at_s:
            self._keep_at_s = time.monotonic() + _KEEP_EVERY_S
            self._read.commit(self._master.offsets(), "")
        if time.monotonic() >= self._trim_at_s:
            self._trim_at_s = time.monotonic() + _TRIM_EVERY_S
            self._trims.trim()
        if trouble is not None:
            raise trouble

    def numbers(self) -> Mapping[str, Any]:
        return self._lane.numbers(self._counts)

    def _follow(self) -> None:
        if not self._follows:
            self._master.go_on_from(by_partition(self._read.committed().offsets))
            self._follows = True
        self._master.go_on_from({})
        for message in self._master.to_the_end(_READ_WITHIN_S):
            key = (message.key() or b"").decode(errors="replace")
            if key == RELAY_HEARTBEAT_KEY:
                if (as_of_ms := confirmed_ms(message.value())) is not None:
                    self._as_of_ms[str(message.topic())] = as_of_ms
            else:
                table = str(message.topic()).removeprefix(_TABLE_BEGINS).removesuffix(_TABLE_ENDS)
                timed = timed_key(key) if table in self._timed else None
                self._rows[row(table, timed.key if timed else key)] = None

    def _is_long_ago(self) -> bool:
        now_s = time.monotonic()
        if now_s < self._look_all_the_same_s:
            return False
        somebody_waits = self._lane.somebody_waits()
        self._look_all_the_same_s = now_s + _WAKE_AT_LEAST_EVERY_S
        return somebody_waits

    def _as_of(self) -> int | None:
        """None while it is not known of each table: what was known before goes on to hold."""
        known = self._as_of_ms.keys() >= set(self._masters)
        return min(self._as_of_ms.values()) if known and self._as_of_ms else None

    def _wake(self) -> None:
        rows = list(islice(self._rows, _ROWS_AT_ONCE))
        answers: list[KafkaError | None] = []
        self._producer.produce(
            wake_topic("enrich"),
            wake_value(rows, self._as_of()),
            partition=0,
            on_delivery=lambda error, _: answers.append(error),
        )
        self._producer.flush(_ANSWER_S + 1)
        if answers != [None]:
            raise KafkaException(answers[0] if answers else KafkaError(KafkaError._TIMED_OUT))
        for name in rows:
            del self._rows[name]
        self._look_ms = _NEVER_MS  # until a batch says when
        self._look_all_the_same_s = time.monotonic() + _WAKE_AT_LEAST_EVERY_S
