from hashlib import sha256

import pytest
from orjson import loads

from tests.end_to_end.conftest import Running
from tests.kafka_log import read_topic

pytestmark = pytest.mark.stack


def test_one_payload_goes_all_the_way(running: Running) -> None:
    response = running.post("device-0001", b'{"value": 85, "firmware": "1.2"}')
    assert response.status_code == 202
    event_id = response.json()["id"]

    running.eventually(lambda: running.http.get("/state/device-0001").status_code == 200)
    state = running.http.get(response.headers["location"]).json()["state"]
    assert (state["count"], state["value"], state["status"]) == (1, 85, "ALARM")

    running.eventually(lambda: running.completions_of({event_id}) == [event_id])
    (data,) = running.rows("SELECT data FROM headrace.event WHERE event_id = %s", event_id)[0]
    assert data["rest"] == {"firmware": "1.2"}

    def row_is_there() -> bool:
        query = "SELECT state FROM headrace.entity_state WHERE entity = 'device' AND id = %s"
        rows = running.rows(query, "device-0001")
        return bool(rows) and rows[0][0]["count"] == 1

    running.eventually(row_is_there)


def test_another_model_and_a_devices_own_repeat(running: Running) -> None:
    for _ in range(3):
        body = b'{"temp_f": 212, "at": "2026-01-01T00:00:00Z"}'
        assert running.post("device-0010", body, **{"Idempotency-Key": "7"}).status_code == 202
    running.eventually(lambda: running.state("device-0010") is not None)
    running.post("device-0010", b'{"temp_f": 32, "at": "2026-01-01T00:00:01Z"}')
    running.eventually(lambda: running.folded({"device-0010": 2}))
    state = running.snapshots()["device-0010"]
    assert (state["count"], state["max"]) == (2, pytest.approx(100))


def test_a_key_that_is_used_for_another_body_is_parked_once(running: Running) -> None:
    device, key = "device-0011", {"Idempotency-Key": "8"}
    bodies = [b'{"value": 1}', b'{"value": 2}', b'{"value": 1}', b'{"value": 2}']
    answers = [running.post(device, body, **key).json() for body in bodies]
    (event_id,) = {answer["id"] for answer in answers}
    last = running.post(device, b'{"value": 3}').json()["id"]

    def letters() -> list[dict[str, bytes]]:
        records = read_topic(running.stack.kafka_bootstrap, "dlq.persist.v1")
        return [r.headers for r in records if r.headers["ce_id"].decode() == event_id]

    running.eventually(lambda: letters() != [])
    running.eventually(lambda: running.completions_of({event_id, last}) == [event_id, last])
    (letter,) = letters()
    assert letter["ce_reason"] == b"key_reuse"
    first = "/".join(str(answers[0][name]) for name in ("topic", "partition", "offset"))
    assert first in letter["ce_detail"].decode()
    query = "SELECT data->'value', payload_sha256 FROM headrace.event WHERE event_id = %s"
    assert running.rows(query, event_id) == [(1, sha256(bodies[0]).hexdigest())]
    running.eventually(lambda: running.folded({device: 2}))
    state = running.snapshots()[device]
    assert (state["count"], state["value"], state["max"]) == (2, 3, 3)


def test_an_alarm_is_an_event_of_its_own_and_a_retired_device_takes_its_share_along(
    running: Running,
) -> None:
    device = "device-0013"
    hot = running.post(device, b'{"value": 90}').json()["id"]
    running.eventually(lambda: running.state(device) is not None)

    there = running.snapshots()[device]["area"]

    def adds_up(*, with_it: bool) -> bool:
        """The area is what its devices are, this one among them or no longer."""
        devices = {d: s for d, s in running.snapshots().items() if s["area"] == there}
        alarms_now = sum(state["status"] == "ALARM" for state in devices.values())
        response = running.http.get(f"/state/area/{there}")
        area = response.json()["state"] if response.status_code == 200 else {}
        told = area.get("devices"), area.get("alarms_now")
        return (device in devices) == with_it and told == (len(devices), alarms_now)

    running.eventually(lambda: adds_up(with_it=True))
    alarms = "SELECT type, data FROM headrace.event WHERE entity_id = %s AND type LIKE 'alarm%%'"
    running.eventually(lambda: len(running.rows(alarms, device)) == 1)
    records = read_topic(running.stack.kafka_bootstrap, "event.alarm_raised.v1")
    (raised,) = [loads(r.value or b"") for r in records if r.key == device.encode()]
    assert raised["cause"] == hot

    retired = running.http.post(f"/v1/status/{device}", content=b'{"status": "retired"}')
    assert retired.status_code == 202
    running.eventually(lambda: running.http.get(f"/state/{device}").status_code == 404)
    assert running.http.get(f"/state/{device}").json()["code"] == "deleted"
    gone = "SELECT deleted FROM headrace.entity_state WHERE entity = 'device' AND id = %s"
    running.eventually(lambda: running.rows(gone, device) == [(True,)])
    running.eventually(lambda: adds_up(with_it=False))
    running.eventually(lambda: len(running.rows(alarms, device)) == 2)

    running.post(device, b'{"value": 30}')
    running.eventually(lambda: running.http.get(f"/state/{device}").status_code == 200)
    shown = running.http.get(f"/state/{device}").json()
    assert (shown["version"], shown["state"]["count"], shown["state"]["value"]) == (3, 1, 30)
    running.eventually(lambda: running.rows(gone, device) == [(False,)])


def test_a_payload_of_an_unknown_device_is_kept_in_the_retry_lane(running: Running) -> None:
    receipt = running.post("nobody-knows-me", b'{"value": 1}').json()

    def waiting() -> dict[str, tuple[bytes | None, bytes]]:
        records = read_topic(running.stack.kafka_bootstrap, "retry.enrich.v1")
        return {r.headers["ce_id"].decode(): (r.value, r.headers["ce_detail"]) for r in records}

    expected = (b'{"value": 1}', b"nobody-knows-me")
    running.eventually(lambda: waiting().get(receipt["id"]) == expected)

    def gates() -> set[bytes | None]:
        return {r.key for r in read_topic(running.stack.kafka_bootstrap, "gate.enrich.v1")}

    running.eventually(lambda: b"nobody-knows-me" in gates())  # retry has it, and counts it
