"""The ledger of the whole stack: exact numbers, red where a row vanishes, and the same numbers when
jobs have done everything again without their checkpoints."""

import json
import shutil
import time
from itertools import chain
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.monitor import ledger_check
from local_stack import cli
from shared.published.ledger import TERMS
from shared.topic_names import JOB_STATUS_TOPIC
from tests.end_to_end.conftest import Running
from tests.kafka_log import read_topic

pytestmark = pytest.mark.stack

DEVICES = [f"device-{601 + i:04}" for i in range(20)]
LATE, BATCH, AGAIN = "device-0630", "device-0633", "device-0634"
RING = 64


def test_the_ledger_closes_and_goes_red_for_one_row(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_POSTGRES_URL", running.stack.postgres_url)

    def shown() -> dict[str, Any]:
        result = CliRunner().invoke(cli.app, ["ledger", "--endpoint", "telemetry", "-o", "json"])
        return json.loads(result.output)

    def terms() -> dict[str, int]:
        found = shown()
        return {term: found[term] - before.get(term, 0) for term in TERMS}

    def is_drained() -> bool:
        """As it is, and not as the ledger saw it last."""
        now, log = shown(), read_topic(running.stack.kafka_bootstrap, "ingest.telemetry.v1")
        return (now["received"], now["in_flight"]) == (len(log), 0)

    before: dict[str, int] = {}
    running.eventually(is_drained)
    before = terms()
    assert before["difference"] == 0

    def keyed(device: str, key: str, value: int) -> dict[str, Any]:
        body = b'{"value": %d, "temp_f": %d}' % (value, value)
        answer = running.post(device, body, **{"Idempotency-Key": f"ledger-{key}"})
        assert answer.status_code == 202
        return answer.json()

    firsts = [keyed(DEVICES[n % 20], str(n), n) for n in range(200)]
    for n in chain(range(60), range(40)):
        keyed(DEVICES[n % 20], str(n), n)
    for n in range(3):
        keyed(DEVICES[n], str(n), 1_000)  # another body under a used key
    for _ in range(15):
        running.post(DEVICES[0], b'{"value": "warm", "temp_f": "warm"}')
    for n in range(5):
        running.post(f"ledger-knows-nobody-{n}", b'{"value": 1}')
    for key in ("late", *map(str, range(RING)), "late"):
        keyed(LATE, f"late-{key}", 1)
    in_the_end = {
        "received": 200 + 100 + 3 + 15 + 5 + RING + 2,
        "stored": 200 + RING + 1,
        "duplicate": 100,
        "late_duplicate": 1,
        "waiting": 5,
        "parked": 15 + 3,
        "dropped": 0,
        "discarded": 0,
        "in_flight": 0,
        "difference": 0,
    }
    running.eventually(lambda: terms() == in_the_end)
    found = shown()
    of_minutes = {term: sum(row[term] for row in found["minutes"]) for term in TERMS}
    assert of_minutes == {term: found[term] for term in TERMS}

    lost = firsts[7]
    assert running.rows("DELETE FROM headrace.event WHERE event_id = %s RETURNING 1", lost["id"])
    red = {**in_the_end, "stored": in_the_end["stored"] - 1, "difference": 1}
    running.eventually(lambda: terms() == red)
    assert shown()["missing"] == ["/".join(str(lost[n]) for n in ("topic", "partition", "offset"))]
    running.eventually(lambda: _check(running)["observedValue"] == 1)
    assert _check(running)["status"] == "warn"
    assert 'headrace_ledger_difference{endpoint="telemetry"} 1.0' in _metrics(running)

    running.stack.hold("spark")
    for job in ("enrich", "persist"):
        shutil.rmtree(running.stack.state_dir / "checkpoints" / job)
    running.stack.release("spark")
    running.eventually(lambda: terms() == in_the_end, within_s=240)
    running.eventually(lambda: running.rows_of({lost["id"]}) == 1)
    assert terms() == in_the_end
    running.eventually(lambda: _check(running)["status"] == "pass")
    assert 'headrace_ledger_difference{endpoint="telemetry"} 0.0' in _metrics(running)


def test_a_batch_that_is_sent_again_counts_once_in_rows_and_state(running: Running) -> None:
    lines = b"".join(b'{"value": %d}\n' % (n % 70) for n in range(2000))
    headers = {"content-type": "application/x-ndjson", "Idempotency-Key": "one-batch"}
    late = _late_duplicates(running)
    for _ in range(3):
        answer = running.http.post(f"/v1/telemetry/{BATCH}", content=lines, headers=headers)
        assert answer.json()["accepted"] == 2000, answer.text
    running.eventually(lambda: _counted(running, BATCH) == (2000, 2000))
    running.eventually(lambda: _settled(running))
    assert _counted(running, BATCH) == (2000, 2000)
    assert _late_duplicates(running) == late


def test_a_state_that_counted_a_repeat_twice_becomes_right_by_itself(running: Running) -> None:
    """Each is sent again after more others than fold remembers."""
    late, began_ms = _late_duplicates(running), time.time_ns() // 1_000_000
    for _ in range(2):
        for key in range(RING + 16):
            headers = {"Idempotency-Key": f"again-{key}"}
            answer = running.http.post(
                f"/v1/telemetry/{AGAIN}", content=b'{"value": 1}', headers=headers
            )
            assert answer.status_code == 202, answer.text

    # other bytes under a key that fold no longer knows: parked, and counted by the state at first
    other = running.http.post(
        f"/v1/telemetry/{AGAIN}", content=b'{"value": 2}', headers={"Idempotency-Key": "again-0"}
    )
    assert other.status_code == 202, other.text

    def is_right() -> bool:
        return _late_duplicates(running) > late and _counted(running, AGAIN) == (80, 80)

    running.eventually(is_right)
    running.eventually(lambda: _settled(running))
    # each word that was said meanwhile: whoever asks now and then may miss that of one second
    told = [ledger_check.check(word, began_ms) for word in _words_since(running, began_ms)]
    assert any(one.get("recounting", 0) > 0 and one["status"] == "warn" for one in told)
    assert _counted(running, AGAIN) == (80, 80)
    running.eventually(lambda: _check(running)["status"] == "pass")


def _words_since(running: Running, began_ms: int) -> list[bytes]:
    """What the ledger has said of itself."""
    records = read_topic(running.stack.kafka_bootstrap, JOB_STATUS_TOPIC)
    ours = [one for one in records if one.key == ledger_check.KEEPER and one.value]
    return [one.value or b"" for one in ours if one.timestamp_ms >= began_ms]


def _late_duplicates(running: Running) -> int:
    endpoints = _check(running)["endpoints"]
    return int(endpoints["telemetry"]["late_duplicate"])


def _counted(running: Running, device: str) -> tuple[int, int]:
    """By rows, and by the state."""
    query = "SELECT count(*) FROM headrace.event WHERE entity_id = %s"
    ((rows,),) = running.rows(query, device)
    return int(rows), int((running.snapshots().get(device) or {"count": 0})["count"])


def _settled(running: Running) -> bool:
    (left,) = running.rows(
        "SELECT (SELECT count(*) FROM headrace.repeat), (SELECT count(*) FROM headrace.recount)"
    )
    return tuple(left) == (0, 0) and _check(running)["recounting"] == 0


def _check(running: Running) -> dict[str, Any]:
    return running.http.get("/health").json()["checks"]["ledger:difference"][0]


def _metrics(running: Running) -> str:
    return running.http.get("/metrics").text
