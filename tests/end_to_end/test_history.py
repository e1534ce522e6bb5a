"""What states were, against what a watcher saw as it passed: with events that come late and fold
the past anew, a deletion, repeats, and batches that skip versions."""

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from local_stack import cli
from shared.timestamps import to_rfc3339
from tests.end_to_end.conftest import Running
from tests.seen_states import Seen, Watcher, assert_history, assert_told_as_seen, is_all_stored

pytestmark = pytest.mark.stack

LATE = [f"device-09{number}" for number in (11, 12, 13)]
DELETED = [f"device-09{number}" for number in (21, 22, 23)]
DEVICES = [*LATE, *DELETED, *(f"device-09{number}" for number in range(31, 40))]


def _letters(running: Running, *arguments: str) -> Any:
    state_dir = ("--state-dir", str(running.stack.state_dir))
    done = CliRunner().invoke(cli.app, ["letters", *arguments, *state_dir, "-o", "json"])
    assert done.exit_code == 0, done.exception
    return json.loads(done.stdout)


def _live(running: Running, chance: random.Random, late: dict[str, dict[str, Any]]) -> None:
    for turn in range(6):
        for device in DEVICES:
            for number in range(chance.choice([1, 1, 2, 4])):
                value = round(chance.uniform(0, 99), 1)
                key = {"Idempotency-Key": f"{device}-{turn}-{number}"}
                for _ in range(chance.choice([1, 1, 2])):  # a repeat has no version
                    answer = running.post(device, b'{"value": %.1f}' % value, **key)
                    assert answer.status_code == 202
            if turn == 2 and device in late.keys() | {*LATE}:
                late[device] = running.post(device, b'{"value": "frosty"}').json()
            if turn == 3 and device in DELETED:
                running.http.post(f"/v1/status/{device}", content=b'{"status": "retired"}')
            if turn == 4:
                running.http.post(f"/v1/status/{device}", content=b'{"status": "online"}')
        time.sleep(0.7)
        if turn == 3:
            # else what is posted next may be folded before the deletion, for it is of another type;
            # then counts go on, and no order of arrival explains them
            running.eventually(lambda: all(_is_deleted(running, device) for device in DELETED))


def test_what_states_were_is_what_was_seen_and_why_is_what_made_them_so(
    running: Running, tmp_path: Path
) -> None:
    watcher = Watcher(running.stack.kafka_bootstrap, "state.device.v1")
    late = dict[str, dict[str, Any]]()
    with watcher.at_work():
        _live(running, random.Random(30), late)
        mended = tmp_path / "mended.json"
        mended.write_text('{"value": -50}')
        running.eventually(lambda: all(watcher.seen[device] for device in DEVICES))
        for device in LATE:
            running.eventually(lambda: len(_letters(running, "list", "--entity", device)) == 1)  # noqa: B023
            (letter,) = _letters(running, "list", "--entity", device)
            _letters(running, "redrive", letter["id"], "--file", str(mended))
            running.eventually(lambda: _lowest(running, device) == -50)  # noqa: B023
            running.post(device, b'{"value": 50}')  # on top of the refold
        running.eventually(
            lambda: all(is_all_stored(running.http, d, watcher.seen[d]) for d in DEVICES)
        )

    skipped = 0
    for device in DEVICES:
        seen = watcher.seen[device]
        skipped += assert_told_as_seen(running.http, device, seen)
        assert_history(running.http, device, seen)
        why = running.http.get(f"/state/{device}/why").json()
        assert why["version"] == seen[-1].version
        _assert_causes(running, device, why["fields"], seen[-1])
    assert skipped, "no batch brought two events of one device: no version was skipped"
    for device, receipt in late.items():
        refolded = [before for before in watcher.seen[device] if before.state["min"] == -50]
        assert len(refolded) >= 1
        assert len(refolded) < len(watcher.seen[device])  # the past was not rewritten
        event = running.http.get(f"/state/{device}/why").json()["fields"]["min"]["event"]
        place = "/".join(str(receipt[name]) for name in ("topic", "partition", "offset"))
        assert (event["id"], event["payload"]["origin"]) == (receipt["id"], place)
    for device in DELETED:
        assert any(one.deleted for one in watcher.seen[device])


def _is_deleted(running: Running, device: str) -> bool:
    return bool(running.http.get(f"/state/{device}").json().get("code") == "deleted")


def _lowest(running: Running, device: str) -> float | None:
    shown = running.state(device)
    return shown["state"]["min"] if shown else None


def _assert_causes(running: Running, device: str, fields: dict[str, Any], newest: Seen) -> None:
    assert {name: told["value"] for name, told in fields.items()} == newest.state
    query = "SELECT event_id, data FROM headrace.event WHERE entity_id = %s"
    data = dict(running.rows(query, device))
    untold = [n for n, told in fields.items() if told["event"] is None and newest.state[n]]
    assert untold == [n for n in untold if n in ("device", "status")], fields
    for name in ("value", "max", "min"):
        assert data[fields[name]["event"]["id"]]["value"] == newest.state[name]
    assert fields["value_at_ms"]["event"]["time"] == to_rfc3339(newest.state["value_at_ms"])
    assert fields["last_seen_ms"]["event"]["arrived_at"] == to_rfc3339(newest.state["last_seen_ms"])
    if newest.state["connection"]:
        assert data[fields["connection"]["event"]["id"]]["status"] == newest.state["connection"]
