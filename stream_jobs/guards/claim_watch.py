"""Whether a worker's driver still has its job's claim: on another machine, where the lease beside
the checkpoint says nothing. Its worker processes ask Kafka, each for itself.

A claim that is not renewed for as long as a lease lasts counts as lost, so the workers of a driver
that was frozen stop; those that were idle till then do so at the next driver's claim at the latest.
Kafka's silence says nothing: then the lease runs out.
"""

import os
from collections.abc import Callable
from contextlib import suppress

import orjson
from confluent_kafka import KafkaException

from clients.kafka.offsets import ANSWERS_SOON, LogOffsets
from shared.consumer_groups import of_job
from shared.errors import LeaseEndedError
from shared.kafka_access import KafkaAccess
from stream_jobs.guards.claim import Claim, highest

VARIABLE = "HEADRACE_CLAIMS"  # of the driver's run, and what each of its jobs reads
_LOOK_EVERY_S = 2.0
_ANSWER_S = 2.0
_watches: dict[str, "ClaimWatch"] = {}


def told(run: str, reads: dict[str, tuple[str, ...]]) -> str:
    """What the driver tells its workers."""
    return orjson.dumps([run, reads]).decode()


def follow(job: str, kafka: KafkaAccess) -> None:
    """In a worker process, before it works for a job; nothing where it can read the lease."""
    if job in _watches or VARIABLE not in os.environ:
        return
    run, reads = orjson.loads(os.environ[VARIABLE])
    topics = reads.get(job)
    if topics is None:  # a session of no job: it has no claim
        return
    log = LogOffsets(kafka, of_job(job), topics, _ANSWER_S, ANSWERS_SOON)
    _watches[job] = ClaimWatch(job, run, lambda: highest(log.committed().notes))


def watch_of(job: str) -> "ClaimWatch | None":
    return _watches.get(job)


class ClaimWatch:
    def __init__(self, job: str, run: str, ask: Callable[[], Claim | None]) -> None:
        """`ask` raises KafkaException where nobody answers."""
        self._job, self._run, self._ask = job, run, ask
        self._look_at_s = 0.0
        self._beat: int | None = None
        self._until_s: float | None = None

    def check(self, now_s: float, lease_s: float) -> None:
        """LeaseEndedError where the driver has lost its claim, or cannot be sure of it."""
        if self._until_s is None:
            self._until_s = now_s + lease_s
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + _LOOK_EVERY_S
            with suppress(KafkaException):
                self._look(now_s, lease_s)
        if now_s > self._until_s:
            raise LeaseEndedError(
                f"for {lease_s:.0f} s Kafka has not told the workers of {self._job} that their "
                "driver goes on"
            )

    def _look(self, now_s: float, lease_s: float) -> None:
        claim = self._ask()
        if claim is None or (claim.beat == self._beat and claim.run == self._run):
            return
        if claim.released and claim.run == self._run:
            self._until_s = 0.0
            raise LeaseEndedError(f"the driver of {self._job} has ended")
        if claim.run != self._run:
            self._until_s = 0.0
            raise LeaseEndedError(f"another process has begun to do the work of {self._job}")
        self._beat, self._until_s = claim.beat, now_s + lease_s
