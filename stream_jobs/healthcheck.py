"""`python -m stream_jobs.healthcheck JOB…`: ends with 0 where each of these jobs has just said that
it works; `all` stands for those of the flow.

A job has no port to knock at; this is what its container's health check asks.
"""

import sys
import time
from collections.abc import Collection
from typing import Any

import orjson
from confluent_kafka import KafkaException

from clients.kafka.offsets import LogOffsets
from clients.kafka.read_range import RangeReader
from clients.kafka.records import LogRange
from shared.consumer_groups import HEALTHCHECK
from shared.errors import JobError
from shared.flow import load_flow
from shared.kafka_access import KafkaAccess
from shared.settings import WRONG_SETTINGS, Settings, explain
from shared.topic_names import JOB_STATUS_TOPIC

_ANSWER_S = 5.0
_RECENT_MS = 15_000  # it speaks every two seconds
# one that waits is well itself: what it waits for is away
_WELL = ("running", "waiting", "rebuilding")


def last_words(kafka: KafkaAccess, jobs: Collection[str]) -> dict[str, dict[str, Any]]:
    """Of those that have spoken. KafkaException or JobError where the broker has no answer."""
    since_ms = time.time_ns() // 1_000_000 - _RECENT_MS
    at = JOB_STATUS_TOPIC, 0
    with LogOffsets(kafka, HEALTHCHECK, answer_s=_ANSWER_S) as log:
        start, end = log.since({at: since_ms})[at], log.ends([at])[at]
    said: dict[str, dict[str, Any]] = {}
    if start is not None:
        consumer = RangeReader(kafka, HEALTHCHECK, _ANSWER_S)
        try:
            for messages in consumer.read([LogRange(*at, start, end)]):
                for message in messages:
                    job = (message.key() or b"").decode(errors="replace")
                    if job in jobs and (value := message.value()):
                        said[job] = orjson.loads(value)
        finally:
            consumer.close()
    return said


def main(*jobs: str) -> int:
    try:
        settings = Settings()
        if jobs == ("all",):
            jobs = tuple(job.name for job in load_flow(settings.flow).jobs())
        said = last_words(settings.kafka, jobs)
    except WRONG_SETTINGS as error:
        print(explain(error))
        return 2
    except KafkaException as error:
        print(f"Kafka: {error.args[0].str()}")
        return 1
    except JobError as error:
        print(f"Kafka: {error}")
        return 1
    return max(_judge(job, said.get(job)) for job in jobs)


def _judge(job: str, said: dict[str, Any] | None) -> int:
    if said is None:
        print(f"{job} has not said a word for {_RECENT_MS // 1000} s")
        return 1
    print(f"{job} is {said['state']}: {said['detail']}".removesuffix(": "))
    return 0 if said["state"] in _WELL else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m stream_jobs.healthcheck JOB…")
    sys.exit(main(*sys.argv[1:]))
