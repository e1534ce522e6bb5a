"""`python -m stream_jobs.healthcheck JOB…`: ends with 0 where each of these jobs has just said that
it works; `all` stands for those of the flow.

A job has no port to knock at; this is what its container's health check asks.
"""

import sys
from typing import Any

from clients.kafka.last_words import RECENT_MS, last_words
from shared.consumer_groups import HEALTHCHECK
from shared.flow import load_flow
from shared.kafka_access import KafkaAwayError
from shared.settings import WRONG_SETTINGS, Settings, explain

# one that waits is well itself: what it waits for is away
_WELL = ("running", "waiting", "rebuilding", "paused")


def main(*jobs: str) -> int:
    try:
        settings = Settings()
        if jobs == ("all",):
            jobs = tuple(job.name for job in load_flow(settings.flow).jobs())
        said = last_words(settings.kafka, HEALTHCHECK, jobs)
    except WRONG_SETTINGS as error:
        print(explain(error))
        return 2
    except KafkaAwayError as error:
        print(error)
        return 1
    return max(_judge(job, said.get(job)) for job in jobs)


def _judge(job: str, said: dict[str, Any] | None) -> int:
    if said is None:
        print(f"{job} has not said a word for {RECENT_MS // 1000} s")
        return 1
    print(f"{job} is {said['state']}: {said['detail']}".removesuffix(": "))
    return 0 if said["state"] in _WELL else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m stream_jobs.healthcheck JOB…")
    sys.exit(main(*sys.argv[1:]))
