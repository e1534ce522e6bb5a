"""The orders that stand, as a process of jobs knows them: all its jobs ask one."""

import logging
import time
from collections import Counter
from contextlib import suppress
from threading import Lock

from confluent_kafka import KafkaException, Message

from clients.kafka.follow import LogFollower
from shared.consumer_groups import ORDERS
from shared.kafka_access import KafkaAccess
from shared.published.job_orders import JobOrder
from shared.topic_names import JOB_ORDER_TOPIC

_log = logging.getLogger(__name__)
_LOOK_EVERY_S = 1.0
_LATEST_S = 2.0


class OrdersUnknownError(Exception):
    """Kafka has told none yet."""


class OrderFeed:
    def __init__(self, kafka: KafkaAccess) -> None:
        self._log = LogFollower(kafka, ORDERS, [JOB_ORDER_TOPIC])
        self._orders: dict[str, JobOrder] = {}
        self._resumes: Counter[str] = Counter()
        self._looks = Lock()
        self._has_looked = False
        self._look_at_s = 0.0

    def of(self, job: str) -> JobOrder | None:
        """The last one that is known. OrdersUnknownError before the first look: a job that is
        paused must not begin."""
        # one job looks for all: no other waits for a broker that is slow
        if self._looks.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._looks.release()
        if not self._has_looked:
            raise OrdersUnknownError
        return self._orders.get(job)

    def resumes(self, job: str) -> int:
        """How often it was told to go on, since this process began."""
        return self._resumes[job]

    def _look(self) -> None:
        now_s = time.monotonic()
        if now_s < self._look_at_s:
            return
        with suppress(KafkaException):  # what was known stands
            self._log.go_on_from({})
            for message in self._log.to_the_end(_LATEST_S):
                self._hear(message)
            self._has_looked = True
        self._look_at_s = time.monotonic() + (_LOOK_EVERY_S if self._has_looked else 0)

    def _hear(self, message: Message) -> None:
        job, raw = (message.key() or b"").decode(errors="replace"), message.value()
        order = None
        try:
            order = raw and JobOrder.from_record(raw)
        except ValueError as error:
            _log.warning("an order for %s is passed over: %s", job, error)
        if order:  # at once: others look meanwhile
            self._orders[job] = order
        else:
            self._orders.pop(job, None)
            self._resumes[job] += raw is None
