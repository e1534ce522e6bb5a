"""The whole local stack, as `up` starts it, once for all tests of this folder."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest

from local_stack.run.stack import Stack
from tests.kafka_log import distinct_events, eventually, last_values, read_topic


class Running:
    """The stack, and the questions that the tests ask it."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        limits = httpx.Limits(max_connections=32, max_keepalive_connections=32)
        self.http = httpx.Client(base_url=stack.gateway_url, timeout=30, limits=limits)

    def post(self, device: str, body: bytes, **headers: str) -> httpx.Response:
        return self.http.post(f"/v1/telemetry/{device}", content=body, headers=headers)

    def post_all(self, payloads: list[tuple[str, bytes]]) -> list[dict[str, Any]]:
        """Many at once; each must be accepted."""
        with ThreadPoolExecutor(16) as pool:
            responses = list(pool.map(lambda payload: self.post(*payload), payloads))
        assert {response.status_code for response in responses} == {202}
        return [response.json() for response in responses]

    def state(self, device: str) -> dict[str, Any] | None:
        response = self.http.get(f"/state/{device}")
        return response.json() if response.status_code == 200 else None

    def rows(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.stack.postgres_url) as connection:
            return connection.execute(query.encode(), arguments).fetchall()

    def rows_of(self, event_ids: set[str]) -> int:
        query = "SELECT count(*) FROM headrace.event WHERE event_id = ANY(%s)"
        return int(self.rows(query, list(event_ids))[0][0])

    def completions_of(self, event_ids: set[str]) -> list[str]:
        """Their event ids, one for each record on the topic."""
        import orjson

        said = [
            orjson.loads(record.value or b"{}")["event_id"]
            for record in read_topic(self.stack.kafka_bootstrap, "completion.reading.v1")
        ]
        return [event_id for event_id in said if event_id in event_ids]

    def events(self) -> list[dict[str, Any]]:
        return distinct_events(self.stack.kafka_bootstrap, "event.reading.v1")

    def snapshots(self) -> dict[str, dict[str, Any]]:
        return last_values(self.stack.kafka_bootstrap, "state.device.v1")

    def dead_letters(self) -> int:
        topics = ("dlq.enrich.v1", "dlq.fold.v1", "dlq.persist.v1")
        return sum(len(read_topic(self.stack.kafka_bootstrap, topic)) for topic in topics)

    def folded(self, counts: dict[str, int]) -> bool:
        snapshots = self.snapshots()
        return all(
            snapshots.get(device, {}).get("count", 0) >= count for device, count in counts.items()
        )

    def job_status(self, job: str) -> str:
        checks = self.http.get("/health").json()["checks"]
        return str(checks[f"job:{job}"][0]["status"])

    def eventually(self, holds: Callable[[], bool], within_s: float = 180) -> None:
        eventually(holds, within_s)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    # whatever the developer's shell points at, these tests run on servers of their own
    for name in ("HEADRACE_KAFKA_BOOTSTRAP", "HEADRACE_POSTGRES_URL"):
        os.environ.pop(name, None)
    settings = {"HEADRACE_HOOKS_HOSTS_ALLOWED": "127.0.0.1"}
    with Stack(tmp_path_factory.mktemp("stack"), random_ports=True, settings=settings) as stack:
        running = Running(stack)
        yield running
        running.http.close()
