"""What comes again, on the whole stack: one effect, at the time and in the place of the first."""

import json
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from clients.postgres.outbox import header_rows
from local_stack import cli
from shared.events import envelope, redelivery
from shared.events.envelope import Header, Position
from tests.end_to_end.conftest import Running
from tests.kafka_log import Record, read_topic

pytestmark = pytest.mark.stack

INGEST = {"ingest.telemetry.v1"}


def _send_again(running: Running, device: str, value: bytes, headers: list[Header]) -> None:
    """As all that an operator sends on: through the outbox."""
    statement = "INSERT INTO headrace.outbox (topic, key, value, headers) VALUES (%s, %s, %s, %s)"
    row = ("again.enrich.v1", device.encode(), value, json.dumps(header_rows(headers)))
    with psycopg.connect(running.stack.postgres_url) as connection:
        connection.execute(statement, row)


def _letters(running: Running, event_id: str) -> list[Record]:
    records = read_topic(running.stack.kafka_bootstrap, "dlq.enrich.v1")
    return [record for record in records if record.headers["ce_id"].decode() == event_id]


def test_a_parked_payload_that_was_mended_has_one_effect_however_often_it_is_sent(
    running: Running,
) -> None:
    device = "device-0071"
    receipt = running.post(device, b'{"value": "warm"}').json()
    place = Position(receipt["topic"], receipt["partition"], receipt["offset"])
    running.eventually(lambda: len(_letters(running, receipt["id"])) == 1)
    (letter,) = _letters(running, receipt["id"])
    own = [(n, v) for n, v in letter.headers.items() if n != envelope.PAYLOAD_SHA256]
    arrived_ms = int(letter.headers[envelope.ARRIVED])
    first = redelivery.FirstArrival(place, arrived_ms, attempt=1)

    _send_again(running, device, b'{"value": "hot"}', redelivery.headers_of(own, first))
    running.eventually(lambda: len(_letters(running, receipt["id"])) == 2)
    _, twice = _letters(running, receipt["id"])
    assert redelivery.first_of(twice.headers.items(), INGEST) == first

    after = running.post(device, b'{"value": 90}').json()["id"]
    running.eventually(lambda: running.folded({device: 1}))
    for attempt in (2, 2, 3):
        _send_again(
            running,
            device,
            b'{"value": 20}',
            redelivery.headers_of(own, first._replace(attempt=attempt)),
        )
    running.eventually(lambda: running.folded({device: 2}))
    both = {receipt["id"], after}
    running.eventually(lambda: sorted(running.completions_of(both)) == sorted(both))
    query = "SELECT origin, arrived_at, data->'value' FROM headrace.event WHERE event_id = %s"
    ((origin, arrived_at, value),) = running.rows(query, receipt["id"])
    assert (origin, value) == (str(place), 20)
    assert round(arrived_at.timestamp() * 1000) == arrived_ms
    snapshot = running.snapshots()[device]
    # it is older than what was folded before it: it counts, and drives nothing
    assert (snapshot["count"], snapshot["value"], snapshot["status"]) == (2, 90, "ALARM")


def test_what_comes_again_from_nowhere_is_parked(running: Running) -> None:
    headers = [(envelope.ID, b"again-from-nowhere")]
    _send_again(running, "device-0071", b'{"value": 1}', headers)
    running.eventually(lambda: len(_letters(running, "again-from-nowhere")) == 1)
    (letter,) = _letters(running, "again-from-nowhere")
    assert letter.headers["ce_reason"] == b"no_origin"
    assert b"ce_origin is missing" in letter.headers["ce_detail"]


def _verb(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(cli.app, [*arguments, "-o", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_a_correction_of_master_data_reaches_rows_completions_and_state_and_is_not_received_anew(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_POSTGRES_URL", running.stack.postgres_url)
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", running.stack.kafka_bootstrap)
    device = "device-0072"

    def at(second: int) -> str:
        return f"2026-03-01T00:00:{second:02}Z"

    bodies = [json.dumps({"value": n, "temp_f": 212, "at": at(n)}).encode() for n in range(6)]
    ids = [running.post(device, body).json()["id"] for body in bodies]
    running.eventually(lambda: running.rows_of({*ids}) == 6)

    def is_drained() -> bool:
        now = _verb("ledger", "--endpoint", "telemetry")
        received = len(read_topic(running.stack.kafka_bootstrap, *INGEST))
        return (now["received"], now["in_flight"], now["difference"]) == (received, 0, 0)

    running.eventually(is_drained)
    ledger = _verb("ledger", "--endpoint", "telemetry")

    _verb("devices", "set", device, "--model", "thermo-f")
    found = "SELECT data->'value' FROM headrace.event WHERE event_id = %s"

    def is_known() -> bool:
        """To enrich: a new payload shows it."""
        probe = running.post(device, b'{"value": 100, "temp_f": 32}').json()["id"]
        running.eventually(lambda: running.rows_of({probe}) == 1)
        ((value,),) = running.rows(found, probe)
        return bool(value < 1)

    running.eventually(is_known)
    which = ("--device", device, "--from", at(1), "--to", at(5), "--name", "mended")
    looked = _verb("reenrich", *which, "--dry-run")
    assert (looked["chosen"], looked["sent"], looked["gone"]) == (4, 0, 0)
    for was_over in (False, True):
        done = _verb("reenrich", *which)
        assert (done["chosen"], done["sent"], done["was_over"]) == (4, 4, was_over)
    stored = """SELECT revision, round((data->>'value')::numeric, 3) FROM headrace.event
                WHERE event_id = ANY(%s) ORDER BY event_time"""
    corrected = [(0, 0), *[(1, 100)] * 4, (0, 5)]
    running.eventually(lambda: running.rows(stored, ids) == corrected)
    wanted = sorted([*ids, *ids[1:5]])
    running.eventually(lambda: sorted(running.completions_of({*ids})) == wanted)

    def is_folded_anew() -> bool:
        """And a later event on top of it."""
        events = running.rows(
            "SELECT data->'value' FROM headrace.event "
            "WHERE entity_id = %s AND type = 'reading'",  # and not the alarms that follow from them
            device,
        )
        state = running.snapshots().get(device, {"_meta": {}})
        values = [value for (value,) in events]
        told = state.get("count"), state.get("min"), state.get("max")
        return told == (len(values), min(values), max(values)) and "asked" not in state["_meta"]

    last = running.post(device, b'{"value": 1, "temp_f": 50}').json()["id"]
    running.eventually(lambda: running.rows_of({last}) == 1)  # or a state without it would do
    running.eventually(is_folded_anew)
    state = running.snapshots()[device]
    assert (state["max"], round(state["value"], 3)) == (pytest.approx(100), 10)
    query = "SELECT state->'max', version FROM headrace.entity_state WHERE id = %s"
    told = (state["max"], state["_meta"]["version"])
    running.eventually(lambda: running.rows(query, device) == [told])

    running.eventually(is_drained)
    assert _verb("ledger", "--endpoint", "telemetry")["duplicate"] == ledger["duplicate"]
