"""The picture of the desk in docs/operations.md: a broker, PostgreSQL and the desk, with dead
letters as enrich writes them.

    python -m tests.desk.picture docs/dead-letters.png
"""

import sys
import tempfile
import time
from pathlib import Path

import httpx
from confluent_kafka import Producer

from clients.kafka.records import Payload
from local_stack.run.stack import Stack
from shared.events.envelope import Position
from shared.flow import FLOW
from shared.model import Fields
from tests.builders import enriches
from tests.desk.browser import Browser
from tests.kafka_log import eventually

_BODIES = (b'{"value": "21.5"}', b'{"value": 21,5}', b'{"value": "21.5"}', b'{"kelvin": 294.65}')
_LETTERS = 4_000
_SERVICES = ("kafka", "postgres", "desk")


_MASTER: dict[str, Fields] = {
    "device": {"area": "area-01", "model": "thermo-c"},
    "device_model": {"value_field": "value"},
}


class _Master:
    """Knows every device."""

    def find(self, table: str, _key: str) -> Fields:
        return _MASTER[table]


def main(file: Path) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-picture-") as folder,
        Stack(Path(folder) / "state", random_ports=True, services=_SERVICES) as stack,
        Browser(Path(folder) / "chromium") as browser,
    ):
        _park(stack.kafka_bootstrap)
        url = str(stack.desk_url)
        eventually(lambda: _parked(url) == _LETTERS)
        browser.look_like(width=1200, height=760)
        browser.open(url)
        file.write_bytes(browser.picture())


def _park(bootstrap: str) -> None:
    producer, enrich = Producer({"bootstrap.servers": bootstrap}), enriches(FLOW)
    for number in range(_LETTERS):
        payload = Payload(
            position=Position("ingest.telemetry.v1", number % 4, number),
            key=b"device-%04d" % (number * 37 % 1000 + 1),
            value=_BODIES[number % len(_BODIES)],
            headers=(),
            arrived_ms=time.time_ns() // 1_000_000,
        )
        letter = enrich(payload, _Master())
        producer.produce(letter.topic, letter.value, letter.key, headers=[*letter.headers])
        producer.poll(0)
    producer.flush(60)


def _parked(url: str) -> int:
    groups = httpx.get(f"{url}/api/groups", params={"by": "status"}).json()["groups"]
    return sum(one["letters"] for one in groups)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
