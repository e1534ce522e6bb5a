"""Streams of a view's changes on a real broker: who goes from node to node has the view."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import httpx
import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from local_stack.run.stack import Stack
from local_stack.verbs.views import rows_as_they_come
from tests.desk import browser
from tests.desk.browser import Browser
from tests.gateway.support import GatewayProcess, until
from tests.gateway.views.support import HOT, changes_of

pytestmark = pytest.mark.stack
FLOW = "tests.stream_jobs.views_flow:FLOW"
_READ = """
    window.seen = {}; window.opened = 0;
    window.rows = new EventSource(arguments[0]);
    rows.onopen = () => window.opened++;
    rows.onmessage = (message) => {
        const row = JSON.parse(message.data);
        seen[row.event_id] = row._meta.version;
    };
"""


class Nodes(NamedTuple):
    one: GatewayProcess
    other: GatewayProcess


class RowWriter:
    """Writes what a view's job writes."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2})
        self.newest: dict[str, int] = {}

    def write(self, key: str, version: int) -> None:
        self.newest[key] = max(version, self.newest.get(key, 0))
        of_key = {"event_id": key}
        value = orjson.dumps({**of_key, "_meta": {"version": version}})
        self._producer.produce(HOT, value, orjson.dumps(of_key))
        assert self._producer.flush(60) == 0


@pytest.fixture
def writer(broker: Stack) -> Iterator[RowWriter]:
    admin = AdminClient({"bootstrap.servers": broker.kafka_bootstrap})
    admin.create_topics([NewTopic(HOT, 3, config={"cleanup.policy": "compact"})])
    until(lambda: HOT in admin.list_topics(timeout=10).topics, 20)
    yield RowWriter(broker.kafka_bootstrap)
    admin.delete_topics([HOT])
    until(lambda: HOT not in admin.list_topics(timeout=10).topics, 20)


@pytest.fixture
def nodes(broker: Stack, writer: RowWriter, tmp_path: Path) -> Iterator[Nodes]:
    del writer  # the topic is there first
    more = {"flow": FLOW, "event_heartbeat_s": 0.2}
    with (
        GatewayProcess(broker.kafka_bootstrap, tmp_path / "one", **more) as one,
        GatewayProcess(broker.kafka_bootstrap, tmp_path / "other", **more) as other,
    ):
        for node in (one, other):
            until(lambda node=node: node.status("/views/hot") == 200, 30)
        yield Nodes(one, other)


def test_who_goes_from_node_to_node_has_the_view(nodes: Nodes, writer: RowWriter) -> None:
    chance = Random(7)
    seen: dict[str, int] = {}
    last_id = ""
    for turn in range(12):
        node = chance.choice(nodes)
        if turn in (4, 8):
            node.kill()
            node.start()
            until(lambda node=node: node.status("/views/hot") == 200, 30)
        for _ in range(20):
            writer.write(f"{chance.randrange(30)}", chance.randrange(1, 1000))
        with changes_of(f"http://127.0.0.1:{node.port}", "/views/hot", last_id) as stream:
            for frame in stream.frames:
                last_id = frame.id
                if frame.data is not None:
                    key, version = frame.data["event_id"], frame.data["_meta"]["version"]
                    assert seen.get(key, 0) <= version
                    seen[key] = version
                if seen == writer.newest or (turn < 11 and chance.random() < 0.05):
                    break
    assert seen == writer.newest


def test_tail_goes_on_after_a_restart(nodes: Nodes, writer: RowWriter) -> None:
    writer.write("a", 1)
    url = f"http://127.0.0.1:{nodes.one.port}/views/hot"
    rows = rows_as_they_come(url, {"accept": "text/event-stream"})
    assert orjson.loads(next(rows))["event_id"] == "a"
    nodes.one.stop()
    writer.write("b", 1)
    nodes.one.start()
    assert orjson.loads(next(rows))["event_id"] == "b"


@browser.needed("CHANGES OF VIEWS ARE")
def test_a_browser_s_event_source_goes_on_where_it_was(
    nodes: Nodes, writer: RowWriter, tmp_path: Path
) -> None:
    writer.write("a", 1)
    with Browser(tmp_path / "chromium") as chromium:
        chromium.open(f"http://127.0.0.1:{nodes.one.port}/livez")
        chromium.run(_READ, "/views/hot")
        until(lambda: chromium.run("return seen") == {"a": 1}, 20)
        nodes.one.kill()
        writer.write("a", 2)
        writer.write("b", 1)
        nodes.one.start()
        until(lambda: chromium.run("return seen") == {"a": 2, "b": 1}, 40)
        assert chromium.run("return opened") == 2


def test_what_no_event_source_asks_for_stays_a_page(nodes: Nodes) -> None:
    answer = httpx.get(f"http://127.0.0.1:{nodes.one.port}/views/hot", headers={"accept": "*/*"})
    assert answer.json()["rows"] == []
