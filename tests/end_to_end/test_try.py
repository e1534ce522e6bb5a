"""A payload is tried, then really sent: it becomes what was told, and the trial left nothing."""

import json
import time
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

from local_stack import cli
from shared.timestamps import to_rfc3339
from tests.end_to_end.conftest import Running
from tests.kafka_log import eventually

pytestmark = pytest.mark.stack

DEVICE = "device-0093"
QUIET_LOOKS = 4  # two seconds from each other
# what they say has nothing to do with payloads
_TICKS = ("job.status.", "master.", "credential.", "__")


def test_a_payload_becomes_what_its_trial_told_and_the_trial_writes_nothing(
    running: Running, tmp_path: Path
) -> None:
    # its mark in the snapshot is that of a payload that was folded
    known = running.post(DEVICE, b'{"value": 20.0}').json()["id"]
    running.eventually(lambda: running.rows_of({known}) == 1)
    running.eventually(lambda: (running.state(DEVICE) or {}).get("state", {}).get("value") == 20.0)
    version = (running.state(DEVICE) or {})["version"]
    seen: list[object] = [None]

    def is_quiet() -> bool:
        seen.append((_rows(running), _ends(running)))
        return seen[-1] == seen[-2]

    def has_been_quiet() -> bool:
        """Nothing of what was sent before is still on its way: the area, the completion. Between
        two steps of a slow machine, too, all may rest for some seconds."""
        is_quiet()
        return len(seen) > QUIET_LOOKS and seen[-QUIET_LOOKS:] == [seen[-1]] * QUIET_LOOKS

    running.eventually(lambda: running.completions_of({known}) == [known])
    eventually(has_been_quiet, within_s=240, every_s=2)

    payload = orjson.dumps(
        {"value": 31.5, "battery": 0.8, "at": to_rfc3339(time.time_ns() // 10**6)}
    )
    told = _by_http(running, f"telemetry/{DEVICE}", payload)
    assert (told["outcome"], told["waits_behind"]) == ("event", None)
    (event,), (state,) = told["events"], told["states"]
    assert state["version"] == version
    assert told["as_of"]["states"] is not None
    assert told["as_of"]["master_data"].keys() == {"device", "device_model"}
    (by_terminal,) = _by_terminal(running, tmp_path, payload)["states"]
    assert _timeless(by_terminal["after"]) == _timeless(state["after"])
    missing = _by_http(running, "telemetry/nobody-0093", payload)
    assert (missing["outcome"], missing["cause"]) == ("waits", "missing_device")
    broken = _by_http(running, f"telemetry/{DEVICE}", b'{"value": 1, "at": 7}')
    assert (broken["outcome"], broken["cause"]) == ("parked", "wrong_type")
    assert broken["detail"].startswith("at: ")
    assert is_quiet()

    sent = running.post(DEVICE, payload).json()["id"]
    running.eventually(lambda: running.rows_of({sent}) == 1)
    (become,) = [one for one in running.events() if one["id"] == sent]
    assert become["data"] == event["data"]
    assert (become["type"], become["entity_id"]) == (event["type"], event["entity_id"])
    running.eventually(lambda: (running.state(DEVICE) or {})["version"] > version)
    now = running.state(DEVICE)
    assert now
    assert now["version"] == version + 1
    assert _timeless(now["state"]) == _timeless(state["after"])
    (broken_id,) = {running.post(DEVICE, b'{"value": 1, "at": 7}').json()["id"]}
    running.eventually(lambda: _parked(running, broken_id) == (broken["cause"], broken["detail"]))


def test_what_cannot_be_tried_is_refused_with_a_sentence(running: Running) -> None:
    for path, body, status, code in (
        ("nothing/device-0001", b"{}", 404, "unknown_endpoint"),
        ("telemetry/-a", b"{}", 400, "bad_entity_id"),
        ("telemetry/device-0001", b"", 400, "empty_body"),
    ):
        answer = httpx.post(f"{running.stack.desk_url}/api/try/{path}", content=body)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.headers["content-type"] == "application/problem+json"


def _by_http(running: Running, path: str, body: bytes) -> dict[str, Any]:
    url = f"{running.stack.desk_url}/api/try/{path}"
    answer = httpx.post(url, content=body, headers={"content-type": "application/json"}, timeout=60)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def _by_terminal(running: Running, folder: Path, body: bytes) -> dict[str, Any]:
    file = folder / "payload.json"
    file.write_bytes(body)
    state_dir = ("--state-dir", str(running.stack.state_dir))
    arguments = ["try", "telemetry", DEVICE, str(file), *state_dir]
    done = CliRunner().invoke(cli.app, [*arguments, "-o", "json"])
    assert done.exit_code == 0, done.exception
    read = CliRunner().invoke(cli.app, arguments).stdout
    assert "it would become 1 event" in read
    assert f"device {DEVICE}, as of version " in read
    return dict(json.loads(done.stdout))


def _timeless(state: dict[str, Any]) -> dict[str, Any]:
    """Without the time of its arrival, which is another one."""
    assert state["last_seen_ms"]
    return {**state, "last_seen_ms": None}


def _parked(running: Running, event_id: str) -> tuple[str, str] | None:
    query = "SELECT cause, detail FROM headrace.letter WHERE event_id = %s"
    found = running.rows(query, event_id)
    return (found[0][0], found[0][1]) if found else None


def _rows(running: Running) -> list[tuple[Any, ...]]:
    return running.rows(
        "SELECT (SELECT count(*) FROM headrace.event), (SELECT count(*) FROM headrace.letter),"
        " (SELECT count(*) FROM headrace.letter_audit)"
    )


def _ends(running: Running) -> dict[str, list[int]]:
    reader = Consumer({"bootstrap.servers": running.stack.kafka_bootstrap, "group.id": "ends"})
    try:
        topics = reader.list_topics(timeout=60).topics
        return {
            name: [
                reader.get_watermark_offsets(TopicPartition(name, number), timeout=60)[1]
                for number in sorted(found.partitions)
            ]
            for name, found in topics.items()
            if not name.startswith(_TICKS)
        }
    finally:
        reader.close()
