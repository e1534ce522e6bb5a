"""What a job says of itself, on the status topic; never in the job's way."""

import time
from typing import Any, Protocol

import orjson

from clients.kafka.connect import writer
from shared.settings import Settings
from shared.topic_names import JOB_STATUS_TOPIC
from stream_jobs.guards.breaker import Breaker


class Report(Protocol):
    """State and detail, as a job says them from within, and how it is with PostgreSQL."""

    def __call__(
        self, state: str, detail: str = "", postgres: Breaker | None = None, /
    ) -> None: ...


class StatusReporter:
    def __init__(self, settings: Settings, job: str) -> None:
        self._job = job
        options = {
            "enable.idempotence": False,
            "message.timeout.ms": 5_000,  # older news is no news
            "queue.buffering.max.messages": 1_000,
        }
        self._producer = writer(settings.kafka, options)

    def report(self, state: str, detail: str = "", **numbers: Any) -> None:
        said = {
            "job": self._job,
            "state": state,
            "detail": detail,
            "at_ms": time.time_ns() // 1_000_000,
            "lag_records": None,
            "lag_s": None,
            "batch_id": None,
            "rows_per_s": None,
            "breakers": {},
            **numbers,
        }
        try:
            self._producer.produce(JOB_STATUS_TOPIC, orjson.dumps(said), self._job)
            self._producer.poll(0)
        except BufferError:  # the broker is away and the queue is full
            pass

    def flush(self) -> None:
        """Gives the last word a moment to leave."""
        self._producer.flush(1)
