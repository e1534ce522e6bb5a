"""What comes again, on the whole stack: one effect, at the time and in the place of the first."""

import json

import psycopg
import pytest

from shared import again, envelope
from shared.envelope import Header, Position
from stream_jobs.outbox import header_rows
from tests.end_to_end.conftest import Running
from tests.kafka_log import LogRecord, read_topic

pytestmark = pytest.mark.stack

INGEST = {"ingest.telemetry.v1"}


def _send_again(running: Running, device: str, value: bytes, headers: list[Header]) -> None:
    """As all that an operator sends on: through the outbox."""
    statement = "INSERT INTO headrace.outbox (topic, key, value, headers) VALUES (%s, %s, %s, %s)"
    row = ("again.enrich.v1", device.encode(), value, json.dumps(header_rows(headers)))
    with psycopg.connect(running.stack.postgres_url) as connection:
        connection.execute(statement, row)


def _letters(running: Running, event_id: str) -> list[LogRecord]:
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
    first = again.First(place, arrived_ms, attempt=1)

    _send_again(running, device, b'{"value": "hot"}', again.headers_of(own, first))
    running.eventually(lambda: len(_letters(running, receipt["id"])) == 2)
    _, twice = _letters(running, receipt["id"])
    assert again.first_of(twice.headers.items(), INGEST) == first

    after = running.post(device, b'{"value": 90}').json()["id"]
    running.eventually(lambda: running.folded({device: 1}))
    for attempt in (2, 2, 3):
        _send_again(
            running,
            device,
            b'{"value": 20}',
            again.headers_of(own, first._replace(attempt=attempt)),
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
