"""What a job would say of itself, where none runs."""

import orjson

from clients.kafka.records import Outgoing
from clients.kafka.write import write_now
from shared.timestamps import now_ms
from shared.topic_names import JOB_STATUS_TOPIC
from tests.desk.desk_room import Room


def says(room: Room, job: str, **word: object) -> None:
    # a minute on: a busy machine may look long after, and would find it silent
    at_ms = now_ms() + 60_000
    told = {"job": job, "state": "running", "detail": "", "at_ms": at_ms, **word}
    write_now(room.settings.kafka, Outgoing(JOB_STATUS_TOPIC, job.encode(), orjson.dumps(told), []))
