"""POSTs that wait for what becomes of their payload, on a whole stack."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from local_stack.run.stack import Stack
from tests.end_to_end.conftest import Running
from tests.gateway.support import GatewayProcess, until
from tests.killed import killing
from tests.waiting_load import post_and_read

pytestmark = pytest.mark.stack

POSTS = 300
LONG = "timeout=30s"


def _post(running: Running, device: str, body: bytes, wait: str, **headers: str) -> httpx.Response:
    return running.http.post(
        f"/v1/telemetry/{device}?{wait}", content=body, headers=headers, timeout=60
    )


def _told(running: Running, device: str, body: bytes, wait: str, **headers: str) -> dict[str, Any]:
    answer = _post(running, device, body, wait, **headers)
    assert answer.status_code in (200, 202), answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_what_is_told_as_folded_is_in_the_state_and_what_is_stored_a_row(running: Running) -> None:
    device = "device-0301"
    for number in range(1, 5):
        body = b'{"value": %d}' % number
        answer = _post(running, device, body, f"wait={'stored' if number > 2 else 'folded'}&{LONG}")
        shown = running.http.get(f"/state/{device}").json()
        told = answer.json()
        assert answer.status_code == 200, told
        assert told["events"] == [{"id": told["id"], "type": "reading", "entity_id": device}]
        (state,) = told["states"]
        assert (state["entity"], state["id"]) == ("device", device)
        assert shown["version"] >= state["version"] >= number
        assert (shown["state"]["count"], shown["state"]["value"]) == (number, number)
        if number > 2:
            assert told["reached"] == "stored"
            assert running.rows_of({told["id"]}) == 1


def test_a_repeat_reaches_what_its_first_one_has_reached(running: Running) -> None:
    key = {"Idempotency-Key": "wait-1"}
    versions = []
    for _ in range(3):
        told = _told(running, "device-0302", b'{"value": 1}', f"wait=stored&{LONG}", **key)
        assert told["reached"] == "stored"
        versions.append(told["states"][0]["version"])
    assert versions == [1, 1, 1]
    other = _told(running, "device-0302", b'{"value": 2}', f"wait=stored&{LONG}", **key)
    assert other["parked"]["reason"] == "key_reuse"
    assert other["reached"] in ("enriched", "folded")  # persist may be quicker than fold


def test_who_waits_for_what_is_parked_is_told_at_once(running: Running) -> None:
    _told(running, "device-0303", b'{"value": 1}', f"wait=folded&{LONG}")
    began_s = time.monotonic()
    told = _told(running, "device-0303", b"no JSON", f"wait=folded&{LONG}")
    assert time.monotonic() - began_s < 25
    assert (told["reached"], told["parked"]["by"]) == ("accepted", "enrich")
    assert told["parked"]["detail"]


def test_who_waits_for_what_waits_is_told_why(running: Running) -> None:
    _told(running, "device-0303", b'{"value": 1}', f"wait=folded&{LONG}")
    told = _told(running, "wait-for-me", b'{"value": 1}', "wait=enriched&timeout=10s")
    assert told["reached"] == "accepted"
    assert told["waits"] == {"reason": "missing_device", "detail": "wait-for-me"}


def test_a_deletion_is_folded_too(running: Running) -> None:
    device = "device-0304"
    _told(running, device, b'{"value": 1}', f"wait=folded&{LONG}")
    path = f"/v1/status/{device}?wait=folded&{LONG}"
    told = running.http.post(path, content=b'{"status": "retired"}', timeout=60).json()
    assert (told["reached"], told["states"][0]["deleted"]) == ("folded", True)
    assert running.http.get(f"/state/{device}").json()["code"] == "deleted"


def test_another_gateway_shows_what_was_told_and_what_a_receipt_names(
    running: Running, tmp_path: Path
) -> None:
    device = "device-0305"
    with GatewayProcess(running.stack.kafka_bootstrap, tmp_path) as other:
        until(lambda: other.client.get("/state/nobody").status_code == 404, 30)
        for number in range(1, 6):
            told = _told(running, device, b'{"value": 1}', f"wait=folded&{LONG}")
            wanted = {"If-Version-At-Least": str(told["states"][0]["version"])}
            shown = other.client.get(f"/state/{device}?{LONG}", headers=wanted).json()
            assert shown["state"]["count"] == 2 * number - 1
            receipt = running.post(device, b'{"value": 2}').json()
            for client in (other.client, running.http):
                answer = client.get(f"/state/{device}?after={receipt['id']}&{LONG}", timeout=60)
                assert answer.json()["state"]["count"] == 2 * number


def test_many_wait_at_once(running: Running) -> None:
    devices = [f"device-03{number}" for number in range(11, 20)] * 20

    def post(device: str) -> int:
        return _post(running, device, b'{"value": 3}', f"wait=folded&{LONG}").status_code

    with ThreadPoolExecutor(30) as pool:
        assert set(pool.map(post, devices)) == {200}


def test_no_read_is_stale_while_gateway_and_jobs_are_killed(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    devices = [f"device-{number:04}" for number in range(1, 60) if number % 10]
    killed = "gateway", "spark", "gateway"
    with Stack(tmp_path_factory.mktemp("killed"), random_ports=True) as stack:
        began_s = time.monotonic()

        def goes_on(count: int) -> bool:
            """Until the last one has been killed for a while."""
            return count < POSTS or time.monotonic() - began_s < 10 * (len(killed) + 1)

        with killing(stack, killed, every_s=10):
            found = asyncio.run(post_and_read(devices, lambda: stack.gateway_url, goes_on))
        assert found.stale == []
        assert found.counts["posts"] >= POSTS
        assert found.counts["folded"] > found.counts["posts"] / 4
        assert found.counts["POSTs without an answer"] > 0
