"""A device that is registered after its data, on the whole stack."""

from uuid import uuid4

import pytest

from clients.postgres import master_data, store
from tests.end_to_end.conftest import Running
from tests.kafka_log import read_topic

pytestmark = pytest.mark.stack


def _events_of(running: Running, device: str) -> list[float]:
    return [e["data"]["value"] for e in running.events() if e["entity_id"] == device]


def test_what_comes_before_its_device_waits_alone_and_is_done_in_order(running: Running) -> None:
    device = f"late-{uuid4().hex[:8]}"
    bootstrap = running.stack.kafka_bootstrap
    waits = _waits(running)
    for value in range(5):
        assert running.post(device, b'{"value": %d}' % value).status_code == 202
    running.eventually(lambda: _gate(running, device) is not None)
    # needs no master data, and waits behind those that do
    status = running.http.post(f"/v1/status/{device}", content=b'{"status": "offline"}').json()
    known = running.post("device-0555", b'{"value": 1}').json()["id"]
    running.eventually(lambda: running.rows_of({known}) == 1)
    assert _events_of(running, device) == []
    assert running.rows_of({status["id"]}) == 0
    running.eventually(lambda: _waits(running) == waits + 6)
    with store.connect(running.stack.postgres_url, "test") as connection:
        master_data.add_device(connection, device, "area-01", "thermo-c")
    assert running.post(device, b'{"value": 5}').status_code == 202
    running.eventually(lambda: len(_events_of(running, device)) == 6)
    assert _events_of(running, device) == [0, 1, 2, 3, 4, 5]
    running.eventually(lambda: running.rows_of({status["id"]}) == 1)
    # nothing is left of it, and what comes now takes the short way again
    running.eventually(lambda: _gate(running, device) is None)
    running.eventually(lambda: _waits(running) == waits)
    in_lane = _in_lane(running, device)
    running.eventually(lambda: running.job_status("retry") == "pass")
    assert running.post(device, b'{"value": 6}').status_code == 202
    running.eventually(lambda: len(_events_of(running, device)) == 7)
    assert _in_lane(running, device) == in_lane
    assert device.encode() not in {r.key for r in read_topic(bootstrap, "dlq.enrich.v1")}


def _waits(running: Running) -> int:
    (lane,) = running.http.get("/health").json()["checks"]["lane:retry.enrich.v1"]
    return int(lane["observedValue"])


def _gate(running: Running, device: str) -> bytes | None:
    records = read_topic(running.stack.kafka_bootstrap, "gate.enrich.v1")
    return {record.key: record.value for record in records}.get(device.encode())


def _in_lane(running: Running, device: str) -> int:
    records = read_topic(running.stack.kafka_bootstrap, "retry.enrich.v1")
    return sum(record.key == device.encode() for record in records)
