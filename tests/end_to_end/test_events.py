"""GET /events/{id} of payloads that end in each stage, and of one that never came."""

import time
from typing import Any

import httpx
import pytest

from local_stack.run.stack import Stack
from shared.ids import fresh_event_id
from tests.end_to_end.conftest import Running
from tests.stream_jobs.forward.target_server import TargetServer

pytestmark = pytest.mark.stack

WELL, PARKED, UNKNOWN_DEVICE = "device-0431", "device-0432", "events-wait"
WHOLE_WAY = "accepted", "enriched", "folded", "stored", "completed", "forwarded"


def told(running: Running, event_id: str) -> dict[str, Any]:
    answer = running.http.get(f"/events/{event_id}", timeout=60)
    assert answer.status_code in (200, 404, 503), answer.text
    return dict(answer.json())


def stages(running: Running, event_id: str) -> dict[str, dict[str, Any]]:
    return {one["stage"]: one for one in told(running, event_id).get("stages", ())}


def add_hook(stack: Stack, url: str) -> None:
    asked = {"url": url, "of": "events", "entities": [WELL]}
    made = httpx.put(f"{stack.desk_url}/api/hooks/events", json=asked, timeout=60)
    assert made.status_code == 201, made.text


def test_each_payload_is_told_how_far_it_has_come(running: Running) -> None:
    with TargetServer() as target:
        add_hook(running.stack, target.url)
        receipts = {
            device: running.post(device, body).json()
            for device, body in (
                (WELL, b'{"value": 21.5}'),
                (PARKED, b"no JSON"),
                (UNKNOWN_DEVICE, b'{"value": 1}'),
            )
        }
        ids = {device: receipt["id"] for device, receipt in receipts.items()}
        for receipt in receipts.values():
            place = f"{receipt['topic']}/{receipt['partition']}/{receipt['offset']}"
            assert stages(running, receipt["id"])["accepted"]["place"] == place

        running.eventually(lambda: tuple(stages(running, ids[WELL])) == WHOLE_WAY)
        way = stages(running, ids[WELL])
        assert told(running, ids[WELL])["now"] == "stored"
        state = running.state(WELL)
        assert state
        assert (way["folded"]["entity"], way["folded"]["entity_id"]) == ("device", WELL)
        assert way["folded"]["version"] == state["version"] == 1
        assert "or_earlier" not in way["folded"]
        row = running.rows(
            "SELECT row_key, position FROM headrace.event WHERE event_id = %s", ids[WELL]
        )
        assert row == [(way["stored"]["row_key"], way["enriched"]["place"])]
        assert way["completed"]["place"].startswith("completion.reading.v1/")
        assert (way["forwarded"]["hook"], way["forwarded"]["verdict"]) == ("events", "done")
        assert all(one["at"] for one in way.values())

        running.eventually(lambda: "letter" in stages(running, ids[PARKED]).get("parked", {}))
        assert told(running, ids[PARKED])["now"] == "parked"
        assert stages(running, ids[PARKED])["parked"]["cause"] == "not_json"

        running.eventually(lambda: told(running, ids[UNKNOWN_DEVICE])["now"] == "waits")
        waits = stages(running, ids[UNKNOWN_DEVICE])["waits"]
        assert (waits["by"], waits["cause"], waits["detail"]) == (
            *("enrich", "missing_device"),
            UNKNOWN_DEVICE,
        )

        never_id = fresh_event_id()
        for what, asked in {
            "stored": ids[WELL],
            "waits": ids[UNKNOWN_DEVICE],
            "never": never_id,
        }.items():
            began_s = time.monotonic()
            for _ in range(5):
                told(running, asked)
            print(f"{what}: {(time.monotonic() - began_s) * 200:.0f} ms an answer")
        never = running.http.get(f"/events/{never_id}", timeout=60)
        assert (never.status_code, never.json()["code"]) == (404, "unknown_event")
        httpx.delete(f"{running.stack.desk_url}/api/hooks/events", timeout=60)
