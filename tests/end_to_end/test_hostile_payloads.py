"""Whatever is posted: no job dies of it, and it ends as a row or in a lane."""

import pytest

from tests.end_to_end.conftest import Running
from tests.kafka_log import read_topic

pytestmark = pytest.mark.stack

NO_TIME = b'{"value": 1, "at": "0001-01-01T00:00:00+01:00"}'  # before the year 1 in UTC
EARLY = b'{"value": 1, "at": "1970-01-01T00:00:00+02:00"}'
GROWS = b'{"value": 1, "all": [' + b",".join([b"1e15"] * 200_000) + b"]}"  # to 3.8 MB


def test_payloads_that_are_hard_to_write_down_stop_nobody(running: Running) -> None:
    devices = [f"device-{number:04}" for number in (701, 702, 703, 704)]
    bodies = [NO_TIME, EARLY, GROWS, b'{"value": 1}']
    receipts = running.post_all(list(zip(devices, bodies, strict=True)))
    running.eventually(lambda: running.folded(dict.fromkeys(devices[1:], 1)))
    ids = [receipt["id"] for receipt in receipts]
    running.eventually(lambda: running.rows_of(set(ids)) == 3)
    letters = read_topic(running.stack.kafka_bootstrap, "dlq.enrich.v1")
    reasons = {r.headers["ce_id"].decode(): r.headers["ce_reason"] for r in letters}
    assert reasons[ids[0]] == b"bad_time"
