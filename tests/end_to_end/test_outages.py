from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.end_to_end.conftest import Running
from tests.oracle import expected_states

pytestmark = pytest.mark.stack


def _reading(value: int) -> bytes:
    """As both device models say it."""
    return b'{"value": %d, "temp_f": %d}' % (value, value)


def _assert_states_are_the_pure_fold(running: Running, devices: set[str]) -> None:
    expected = expected_states([e for e in running.events() if e["entity_id"] in devices])
    snapshots = running.snapshots()
    assert expected.keys() == devices
    for device, state in expected.items():
        snapshot = {k: v for k, v in snapshots[device].items() if k != "_meta"}
        assert snapshot == state, device

        def shown(device: str = device, state: dict[str, object] = state) -> bool:
            found = running.state(device)
            return found is not None and found["state"] == state

        running.eventually(shown, within_s=120)


def _check(running: Running, name: str) -> dict[str, Any]:
    return running.http.get("/health").json()["checks"].get(name, [{}])[0]


def _breaker(running: Running) -> dict[str, Any]:
    return _check(running, "breaker:persist:postgres")


def _persist_waits(running: Running) -> bool:
    """For PostgreSQL, since a time that it tells, and says how much waits for how long."""
    breaker, job = _breaker(running), _check(running, "job:persist")
    since = breaker.get("status") == "warn" and " since 20" in breaker["output"]
    return since and job.get("lag_records", 0) > 0 and job.get("lag_s", 0) > 0


def _ledger(running: Running) -> dict[str, Any]:
    found: dict[str, Any] = running.http.get("/health").json()["checks"]["ledger:difference"][0]
    return found


def _numbers(running: Running, metric: str, **labels: str) -> list[float]:
    """Of persist."""
    wanted = {"job": "persist", **labels}
    return [
        sample.value
        for family in text_string_to_metric_families(running.http.get("/metrics").text)
        for sample in family.samples
        if sample.name == metric and wanted.items() <= sample.labels.items()
    ]


def _partitions_add_up_to_the_lag(running: Running) -> bool:
    (records,) = _numbers(running, "headrace_job_lag_records")
    of_partitions = _numbers(running, "headrace_job_partition_lag_records")
    ages_s = _numbers(running, "headrace_job_partition_lag_seconds")
    return sum(of_partitions) == records > 0 and max(ages_s) > 0 and len(of_partitions) > 4


def test_postgres_down_holds_up_only_what_needs_it(running: Running) -> None:
    devices = [f"device-{101 + i:04}" for i in range(50)]
    running.post_all([("device-0151", _reading(1))])
    running.eventually(lambda: "telemetry" in _ledger(running).get("endpoints", {}))
    running.eventually(lambda: _ledger(running)["endpoints"]["telemetry"]["received"] > 0)
    dead_before = running.dead_letters()
    running.stack.hold("postgres")
    payloads = [(devices[i % 50], _reading(i % 100)) for i in range(1000)]
    receipts = running.post_all(payloads[:700])
    running.eventually(lambda: running.folded(dict.fromkeys(devices, 14)))

    # enrich and fold begin anew without PostgreSQL, from Kafka and their checkpoints alone
    running.stack.hold("spark")
    running.stack.release("spark")
    receipts += running.post_all(payloads[700:])
    running.eventually(lambda: running.folded(dict.fromkeys(devices, 20)), within_s=240)
    running.eventually(lambda: _persist_waits(running))
    assert running.job_status("persist") == "warn"
    assert _numbers(running, "headrace_job_breaker", store="postgres")
    running.eventually(lambda: _partitions_add_up_to_the_lag(running))

    def only_warns() -> bool:
        health = running.http.get("/health")
        return (health.status_code, health.json()["status"]) == (200, "warn")

    running.eventually(only_warns)
    ledger = _ledger(running)
    assert ledger["endpoints"]["telemetry"]["received"] > 0
    assert ledger["ageSeconds"] > 1

    running.stack.release("postgres")
    ids = {receipt["id"] for receipt in receipts}
    running.eventually(lambda: len(running.completions_of(ids)) >= 1000, within_s=240)
    assert sorted(running.completions_of(ids)) == sorted(ids)
    assert running.rows_of(ids) == 1000
    assert running.dead_letters() == dead_before
    running.eventually(lambda: _breaker(running).get("output") == "closed")
    _assert_states_are_the_pure_fold(running, set(devices))


def test_spark_down_takes_nothing_from_devices_and_operators(running: Running) -> None:
    devices = [f"device-{201 + i:04}" for i in range(20)]
    first = running.post_all([(device, _reading(50)) for device in devices])
    running.eventually(lambda: running.folded(dict.fromkeys(devices, 1)))
    running.eventually(lambda: running.state(devices[0]) is not None)

    running.stack.hold("spark")
    later = running.post_all([(devices[i % 20], _reading(i)) for i in range(200)])
    state = running.state(devices[0])
    assert state is not None
    assert state["state"]["count"] == 1
    assert state["age_ms"] > 0

    running.stack.release("spark")
    running.eventually(lambda: running.folded(dict.fromkeys(devices, 11)), within_s=240)
    ids = {receipt["id"] for receipt in [*first, *later]}
    running.eventually(lambda: running.rows_of(ids) == len(ids), within_s=240)
    _assert_states_are_the_pure_fold(running, set(devices))
