"""What states were, against what a watcher saw as it passed: with events that come late and fold
the past anew, a deletion, repeats, and batches that skip versions."""

import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from confluent_kafka import Consumer
from typer.testing import CliRunner

from local_stack import cli
from shared.timestamps import to_rfc3339
from tests.end_to_end.conftest import Running

pytestmark = pytest.mark.stack

LATE = [f"device-09{number}" for number in (11, 12, 13)]
DELETED = [f"device-09{number}" for number in (21, 22, 23)]
DEVICES = [*LATE, *DELETED, *(f"device-09{number}" for number in range(31, 40))]


class Seen(NamedTuple):
    version: int
    at_ms: int
    deleted: bool
    event_time_ms: int | None
    state: dict[str, Any]


class Watcher:
    """Sees each snapshot as it comes to the topic."""

    def __init__(self, kafka: str) -> None:
        self.seen: dict[str, list[Seen]] = defaultdict(list)
        self._kafka = kafka
        self._ends = threading.Event()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._ends.set()
            thread.join()

    def _watch(self) -> None:
        options = {"bootstrap.servers": self._kafka, "group.id": f"watcher-{time.time_ns()}"}
        consumer = Consumer({**options, "auto.offset.reset": "earliest"})
        consumer.subscribe(["state.device.v1"])
        while not self._ends.is_set():
            for message in consumer.consume(500, 0.2):
                assert message.error() is None
                device = (message.key() or b"").decode()
                self._note(device, message.value() or b"{}", message.timestamp()[1])
        consumer.close()

    def _note(self, device: str, value: bytes, at_ms: int) -> None:
        state = orjson.loads(value)
        meta = state.pop("_meta")
        of_device = self.seen[device]
        if not of_device or meta["version"] > of_device[-1].version:
            deleted = meta.get("deleted", False)
            facts = meta["version"], at_ms, deleted, meta["event_time_ms"], state
            of_device.append(Seen(*facts))


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
    watcher, late = Watcher(running.stack.kafka_bootstrap), dict[str, dict[str, Any]]()
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
        running.eventually(lambda: all(_is_all_stored(running, watcher, d) for d in DEVICES))

    skipped = 0
    for device in DEVICES:
        seen = watcher.seen[device]
        skipped += _assert_told_as_seen(running, device, seen)
        _assert_history(running, device, seen)
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


def _is_all_stored(running: Running, watcher: Watcher, device: str) -> bool:
    page = running.http.get(f"/state/{device}/history?limit=1").json()
    shown, seen = running.state(device), watcher.seen[device]
    newest = page["versions"][0]["version"] if page.get("versions") else None
    return bool(shown and seen) and newest == shown["version"] == seen[-1].version


def _assert_told_as_seen(running: Running, device: str, seen: list[Seen]) -> int:
    """How many versions nobody has seen."""
    skipped = 0
    for number, one in enumerate(seen):
        then = seen[number + 1] if number + 1 < len(seen) else None
        last_ms = then.at_ms - 1 if then else one.at_ms
        paths = [f"version={one.version}"]
        if last_ms >= one.at_ms:  # else the next one came in the same millisecond
            paths += [f"at={to_rfc3339(at_ms)}" for at_ms in (one.at_ms, last_ms)]
        for path in paths:
            answer = running.http.get(f"/state/{device}?{path}")
            told = answer.json()
            if one.deleted:
                assert (answer.status_code, told["code"]) == (404, "deleted"), path
                continue
            assert answer.status_code == 200, (path, told)
            time_ms = one.event_time_ms
            assert told["state"] == one.state, path
            assert (told["version"], told["updated_at"], told["event_time"]) == (
                one.version,
                to_rfc3339(one.at_ms),
                time_ms and to_rfc3339(time_ms),
            )
        if then and then.version > one.version + 1:
            skipped += then.version - one.version - 1
            answer = running.http.get(f"/state/{device}?version={one.version + 1}")
            assert (answer.status_code, answer.json()["code"]) == (404, "unknown_version")
    early = running.http.get(f"/state/{device}?at={to_rfc3339(seen[0].at_ms - 1)}")
    assert (early.status_code, early.json()["code"]) == (404, "unknown_id")
    return skipped


def _assert_history(running: Running, device: str, seen: list[Seen]) -> None:
    found: list[dict[str, Any]] = []
    after = ""
    while after is not None:
        page = running.http.get(f"/state/{device}/history?limit=4{after and '&next=' + after}")
        found += page.json()["versions"]
        after = page.json()["next"]
    found.reverse()
    assert [(one["version"], one["updated_at"]) for one in found] == [
        (one.version, to_rfc3339(one.at_ms)) for one in seen
    ]
    before: dict[str, Any] = {}
    for one, told in zip(seen, found, strict=True):
        if one.deleted:
            assert told["deleted"]
        else:
            changed = {k: v for k, v in one.state.items() if k not in before or before[k] != v}
            assert told["changed"] == changed
        before = one.state


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
