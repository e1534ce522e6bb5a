"""The job on a real broker and a real OpenSearch, with kills of both in between."""

import random
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import orjson
import pytest
from confluent_kafka import Producer

from clients.kafka.create_topics import ensure_topics
from local_stack.run.stack import Stack
from shared.flow import load_flow
from shared.folding import snapshot
from shared.folding.snapshot import Snapshot
from shared.settings import JobSettings
from tests.job_process import JobProcess
from tests.kafka_log import eventually, read_topic
from tests.opensearch_server import OpenSearch

pytestmark = pytest.mark.stack

FLOW = "tests.stream_jobs.search_flow:FLOW"
DEVICES, AREAS = "state.device.v1", "state.area.v1"
AT_MS = 1_700_000_000_000
# the index cannot take text for a number
ODD = "much"


class Rig(NamedTuple):
    bootstrap: str
    settings: JobSettings
    variables: dict[str, str]
    folder: Path
    producer: Producer
    search: OpenSearch

    def job(self) -> JobProcess:
        return JobProcess("search", self.settings, self.folder / "log", self.variables)

    def write(self, topic: str, key: str, state: Snapshot | None) -> None:
        value = None if state is None else snapshot.encode(state, "f")
        self.producer.produce(topic, value, key)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = httpx.request(method, f"{self.search.url}{path}", json=body, timeout=60)
        return answer.json()

    def documents(self, alias: str) -> dict[str, Any]:
        """As whoever searches finds them."""
        self.ask("POST", f"/{alias}/_refresh")
        found = self.ask("POST", f"/{alias}/_search", {"size": 10_000})
        hits = found.get("hits", {}).get("hits", [])
        return {hit["_id"]: hit["_source"] for hit in hits}

    def wanted(self, topic: str) -> dict[str, Any]:
        """By the log alone: the last record of each that is not deleted."""
        last = {one.key or b"": one.value for one in read_topic(self.bootstrap, topic)}
        read = {key.decode(): orjson.loads(value) for key, value in last.items() if value}
        return {key: one for key, one in read.items() if not one["_meta"].get("deleted")}

    def has_all(self, topic: str, alias: str) -> bool:
        wanted, found = self.wanted(topic), self.documents(alias)
        if wanted.keys() != found.keys():
            return False
        return all(_is_told(found[key], wanted[key]) for key in wanted)


def _is_told(document: dict[str, Any], written: dict[str, Any]) -> bool:
    state = {name: value for name, value in written.items() if name != "_meta"}
    told = orjson.loads(document["state_json"]) if "refused" in document else document["state"]
    is_odd = state.get("value") == ODD
    same = told == state and document["version"] == written["_meta"]["version"]
    return same and ("refused" in document) == is_odd


@pytest.fixture
def rig(empty_kafka: Stack, spark_environment: dict[str, str], tmp_path: Path) -> Iterator[Rig]:
    bootstrap = empty_kafka.kafka_bootstrap
    settings = JobSettings(kafka_bootstrap=bootstrap, state_dir=tmp_path / "job", flow=FLOW)
    settings.make_folders()
    ensure_topics(load_flow(FLOW), settings)
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    with OpenSearch(tmp_path) as search:
        variables = {**spark_environment, "HEADRACE_SEARCH_URL": search.url}
        yield Rig(bootstrap, settings, variables, tmp_path, producer, search)


def feed(rig: Rig, stop: threading.Event) -> None:
    """States that grow, are deleted, are forgotten, and live again from version 1."""
    dice = random.Random(5)
    versions: dict[str, int] = {}
    while not stop.is_set():
        for _ in range(200):
            key = f"acme/device-{dice.randrange(60):04}"
            version = versions.get(key, 0) + 1
            versions[key] = version
            what = dice.random()
            if what < 0.04:
                rig.write(DEVICES, key, None)
                versions[key] = 0
                continue
            value = ODD if what < 0.06 else dice.random()
            state = Snapshot({"value": value, "status": "ACTIVE"}, version, AT_MS, what > 0.97)
            rig.write(DEVICES, key, state)
        area = Snapshot({"devices": dice.randrange(9)}, dice.randrange(1, 99), None)
        rig.write(AREAS, f"acme/area-{dice.randrange(3)}", area)
        rig.producer.poll(0)
        time.sleep(0.2)
    assert rig.producer.flush(60) == 0


def test_documents_are_the_latest_states_whoever_is_killed_or_deleted(rig: Rig) -> None:
    fed = threading.Event()
    feeder = threading.Thread(target=feed, args=(rig, fed))
    feeder.start()
    try:
        with rig.job() as job:
            eventually(lambda: len(rig.documents("device")) > 20, 240)
            rig.search.kill()
            time.sleep(3)
            rig.search.start()
            job.kill()
            shutil.rmtree(rig.settings.checkpoints / "search")
            job.start()
            time.sleep(20)
            # somebody deletes what is behind an alias: it is made anew, of all states
            (index,) = rig.ask("GET", "/_alias/areas")
            rig.ask("DELETE", f"/{index}")
            eventually(lambda: len(rig.documents("areas")) == 3, 240)
            job.kill()
            fed.set()
            feeder.join()
            job.start()
            eventually(lambda: rig.has_all(DEVICES, "device"), 240, 2)
            eventually(lambda: rig.has_all(AREAS, "areas"), 240, 2)
    finally:
        fed.set()
        feeder.join()
    mapping = rig.ask("GET", "/device/_mapping")
    ((_, told),) = mapping.items()
    fields = told["mappings"]["properties"]["state"]["properties"]
    assert fields["value"]["type"] == "double"
    hot = {"query": {"range": {"state.value": {"gte": 0}}}, "size": 100}
    hits = rig.ask("POST", "/device/_search", hot)["hits"]["hits"]
    odd = [key for key, one in rig.wanted(DEVICES).items() if one["value"] == ODD]
    assert len(hits) == len(rig.wanted(DEVICES)) - len(odd)
