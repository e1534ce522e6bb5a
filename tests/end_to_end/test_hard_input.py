"""Whatever is posted: it is refused, or it is in the log byte for byte and ends as an event or in a
lane, once and for the right reason; and no job dies of it.

HEADRACE_TEST_SEED=7 repeats a run, HEADRACE_TEST_BODIES=20000 makes it a long one.
"""

import itertools
import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import orjson
import pytest

from local_stack.machine.log_files import log_path
from shared.flow import load_flow
from shared.model import Endpoint
from tests.end_to_end.conftest import Running
from tests.end_to_end.hard_input import Randomness, Sent, dialect, hard_bodies, large_bodies
from tests.kafka_log import Record, read_topic

pytestmark = pytest.mark.stack

BODIES = int(os.environ.get("HEADRACE_TEST_BODIES", "1000"))
FLOW = load_flow()


@pytest.mark.parametrize("endpoint", FLOW.endpoints, ids=lambda endpoint: endpoint.name)
def test_hard_input_stops_nobody_and_is_accounted_for(running: Running, endpoint: Endpoint) -> None:
    seed = int(os.environ.get("HEADRACE_TEST_SEED", random.randrange(1 << 32)))
    print(f"HEADRACE_TEST_SEED={seed}")
    sent = list(itertools.islice(_bodies(endpoint, Randomness(seed)), BODIES))
    before = _pids(running)
    spark_log = log_path(running.stack.state_dir, "spark")
    spark_log_bytes = spark_log.stat().st_size

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda item: _post(running, endpoint, *item), sent))

    accepted: dict[str, tuple[Sent, dict[str, Any]]] = {}
    for (_, what), answer in zip(sent, answers, strict=True):
        assert answer.status_code == what.status, (what.kind, answer.text)
        if answer.status_code == 202:
            accepted[answer.json()["id"]] = what, answer.json()
        else:
            assert answer.json()["outcome"] == "definite"
    assert len(accepted) == sum(what.status == 202 for _, what in sent)

    devices = {device.encode() for device, _ in sent}
    in_log = [r for r in _topic(running, endpoint.topic) if r.key in devices]
    by_place = {(r.partition, r.offset): r for r in in_log}
    assert len(in_log) == len(accepted), "the log holds what was refused"
    for event_id, (what, receipt) in accepted.items():
        record = by_place[receipt["partition"], receipt["offset"]]
        assert receipt["topic"] == endpoint.topic
        assert record.headers["ce_id"].decode() == event_id
        assert record.value == what.body, what.kind

    def ended() -> dict[str, list[tuple[str, Record]]]:
        found = defaultdict(list)
        for topic in _ends(endpoint):
            for record in _topic(running, topic):
                if (event_id := record.headers["ce_id"].decode()) in accepted:
                    found[event_id].append((topic, record))
        return found

    running.eventually(lambda: ended().keys() == accepted.keys())
    for event_id, ends in ended().items():
        what, receipt = accepted[event_id]
        assert len(ends) == 1, (what.kind, ends)
        _check_end(what, receipt, *ends[0])

    events = {event_id for event_id, (what, _) in accepted.items() if what.reason is None}
    running.eventually(lambda: running.rows_of(events) == len(events))
    running.eventually(lambda: set(_completed(running, endpoint)) >= events)
    for lane in ("dlq.fold.v1", "dlq.persist.v1"):
        refused = [r for r in _topic(running, lane) if r.headers["ce_id"].decode() in accepted]
        assert not refused, refused

    def all_jobs_pass() -> bool:
        checks = running.http.get("/health").json()["checks"].items()
        return {said[0]["status"] for name, said in checks if name.startswith("job:")} == {"pass"}

    running.eventually(all_jobs_pass)
    assert _pids(running) == before, "a process has died"
    assert b" ended:" not in spark_log.read_bytes()[spark_log_bytes:], "a job has died"
    kinds = Counter(what.reason or "event" for what, _ in accepted.values())
    print(f"{endpoint.name}: {len(sent)} sent, {len(accepted)} accepted: {dict(kinds)}")


def _bodies(endpoint: Endpoint, rng: Randomness) -> Iterator[tuple[str, Sent]]:
    """Each with the device that sends it; every tenth one's model has another field."""
    fields = {f"device-{n:04}": "temp_f" if n % 10 == 0 else "value" for n in range(801, 851)}
    spoken = {device: dialect(endpoint.name, field, rng) for device, field in fields.items()}
    for device in ("device-0801", "device-0810"):
        yield from ((device, what) for what in large_bodies(spoken[device], rng))
    for number in range(5 if "device" in endpoint.master else 0):
        yield f"nobody-knows-{number}", Sent("an unknown device", b'{"value": 1}', "missing_device")
    endless = {device: hard_bodies(spoken[device], rng) for device in fields}
    while True:
        device = rng.choice(list(fields))
        yield device, next(endless[device])


def _post(running: Running, endpoint: Endpoint, device: str, what: Sent) -> httpx.Response:
    path = f"/v1/{endpoint.name}/{device}"
    pieces = (what.body[at : at + 10_000] for at in range(0, len(what.body), 10_000))
    content = pieces if what.chunked else what.body
    return running.http.post(path, content=content, headers=what.headers)


def _topic(running: Running, topic: str) -> list[Record]:
    return read_topic(running.stack.kafka_bootstrap, topic)


def _ends(endpoint: Endpoint) -> list[str]:
    events = [FLOW.event_type(name).topic for name in endpoint.emits]
    return [*events, "retry.enrich.v1", "dlq.enrich.v1"]


def _completed(running: Running, endpoint: Endpoint) -> list[str]:
    topics = [FLOW.event_type(name).completion_topic for name in endpoint.emits]
    records = [record for topic in topics for record in _topic(running, topic)]
    return [orjson.loads(record.value or b"{}")["event_id"] for record in records]


def _check_end(what: Sent, receipt: dict[str, Any], topic: str, record: Record) -> None:
    place = [receipt["topic"], receipt["partition"], receipt["offset"]]
    if topic.startswith("event."):
        assert what.reason is None, (what, topic)
        event = orjson.loads(record.value or b"")
        assert event["origin"] == place
        assert _says(event) == what.says, what
        return
    assert record.headers["ce_reason"].decode() == what.reason, (what, record.headers)
    assert record.headers["ce_origin"].decode() == "/".join(map(str, place))
    assert record.value == what.body
    assert topic == ("retry.enrich.v1" if what.reason == "missing_device" else "dlq.enrich.v1")


def _says(event: dict[str, Any]) -> Any:
    data = event["data"]
    if event["type"] == "status_changed":
        return data["status"]
    if data["model"] == "thermo-f":
        return pytest.approx((data["value"] + 160 / 9) * (9 / 5))
    return data["value"]


def _pids(running: Running) -> dict[str, int | None]:
    return {
        name: running.stack.pid(name) for name in ("kafka", "postgres", "gateway", "spark", "relay")
    }
