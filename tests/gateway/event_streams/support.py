"""Events on a real broker, and a reader that knows nothing of the gateway's code."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
from confluent_kafka import Producer

from shared.events.envelope import EventRecord, event_value
from shared.flow import FLOW
from tests.gateway.support import GatewayProcess


class Frame(NamedTuple):
    event: str
    id: str
    data: Any


class Stream(NamedTuple):
    answer: httpx.Response
    frames: Iterator[Frame]

    def take(self, count: int) -> list[Frame]:
        """Events, without signs of life."""
        found: list[Frame] = []
        for frame in self.frames:
            if frame.data is not None:
                found.append(frame)
            if len(found) == count:
                break
        return found


@contextmanager
def reading(gateway: GatewayProcess, last_id: str = "", **asked: Any) -> Iterator[Stream]:
    headers = {"last-event-id": last_id} if last_id else {}
    headers |= asked.pop("headers", {})
    url = f"http://127.0.0.1:{gateway.port}/v1/events"
    with httpx.stream("GET", url, params=asked, headers=headers, timeout=60) as answer:
        if answer.status_code != 200:
            answer.read()
        yield Stream(answer, frames_of(answer.iter_lines()))


def frames_of(lines: Iterator[str]) -> Iterator[Frame]:
    """As the standard has it: what the id is stays until there is another one."""
    kind, id_, data = "", "", None
    for line in lines:
        if not line:
            yield Frame(kind or "message", id_, None if data is None else json.loads(data))
            kind, data = "", None
            continue
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "id":
            id_ = value
        elif name == "data":
            data = value


class Writer:
    """Writes what enrich and fold write."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 2}
        )

    def write(self, *records: EventRecord) -> None:
        for record in records:
            topic = FLOW.event_type(record.type).topic
            self._producer.produce(topic, event_value(record), record.entity_id)
        assert self._producer.flush(60) == 0
