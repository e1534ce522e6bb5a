"""POSTs that wait for what becomes of their payload, on a whole stack."""

import time
from typing import Any

import httpx
import pytest

from tests.end_to_end.conftest import Running

pytestmark = pytest.mark.stack


def _post(running: Running, device: str, body: bytes, wait: str, **headers: str) -> httpx.Response:
    return running.http.post(f"/v1/telemetry/{device}?{wait}", content=body, headers=headers)


def _told(running: Running, device: str, body: bytes, wait: str, **headers: str) -> dict[str, Any]:
    answer = _post(running, device, body, wait, **headers)
    assert answer.status_code in (200, 202), answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_what_was_answered_as_folded_is_in_the_state(running: Running) -> None:
    for number in range(1, 6):
        began_s = time.monotonic()
        answer = _post(running, "device-0801", b'{"value": %d}' % number, "wait=folded&timeout=30s")
        print(time.monotonic() - began_s)
        assert answer.status_code == 200, answer.text
        told = answer.json()
        shown = running.http.get(answer.headers["location"]).json()
        assert told["reached"] == "folded"
        assert told["events"] == [{"id": told["id"], "type": "reading", "entity_id": "device-0801"}]
        (state,) = told["states"]
        assert (state["entity"], state["id"]) == ("device", "device-0801")
        assert shown["version"] >= state["version"] >= number
        assert (shown["state"]["count"], shown["state"]["value"]) == (number, number)
