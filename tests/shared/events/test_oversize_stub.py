from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from clients.kafka.records import Record
from shared.events import envelope
from shared.events.envelope import Position
from shared.events.oversize_stub import fitted
from shared.topic_names import LETTER_BYTES_MAX, RECORD_BYTES_MAX
from stream_jobs.aggregate import job as aggregate
from stream_jobs.fold import bucket_fold
from stream_jobs.persist.rows import DeadLetter
from stream_jobs.persist.table_writer import _as_parked

PLACE = Position("event.reading.v1", 3, 7)
LARGEST = b"x" * (RECORD_BYTES_MAX - 200)


def test_what_fits_stays_as_it_is() -> None:
    headers = [("a", b"1"), ("a", b"2")]
    assert fitted(PLACE, b"k", b"v", headers) == (b"k", b"v", headers)
    assert fitted(PLACE, None, None, []) == (None, None, [])


def test_a_stub_keeps_whose_it_is_and_how_often_it_was_tried() -> None:
    headers = [
        ("note", b"n" * LETTER_BYTES_MAX),
        (envelope.ID, b"an-id"),
        (envelope.ATTEMPT, b"3"),
        (envelope.ATTEMPTS, b"[" + b"1," * 10_000 + b"1]"),
        (envelope.DETAIL, b"d" * 4096),
        (envelope.TENANT, b"t" * 5000),  # no tenant of ours
    ]
    key, value, kept = fitted(PLACE, b"k", b"v", headers)
    assert (key, value) == (b"k", b"")
    names = [name for name, _ in kept]
    assert names == [
        envelope.ID,
        envelope.ATTEMPT,
        envelope.ATTEMPTS,
        envelope.DETAIL,
        envelope.STUB,
    ]
    assert dict(kept)[envelope.DETAIL].startswith(b"d" * 2000 + b"; the record has ")


def test_a_key_that_is_too_large_to_be_one_is_left_out() -> None:
    key, value, kept = fitted(PLACE, LARGEST, None, [])
    assert (key, value) == (None, b"")
    assert dict(kept)[envelope.ID] == b"event.reading.v1/3/7"


@pytest.mark.parametrize(
    "park",
    [
        lambda: bucket_fold._dead_letter(PLACE, b"k", LARGEST, "no_event", "why")[1:],
        lambda: aggregate._dead_letter(PLACE, b"k", LARGEST, "no_snapshot", "why")[1:],
        lambda: _as_parked(
            DeadLetter(Record(PLACE, b"k", LARGEST, [("h", b"1")]), "no_event", "why")
        ),
    ],
    ids=["fold", "aggregate", "persist"],
)
def test_each_job_parks_the_largest_record_as_a_stub(park: Callable[[], Any]) -> None:
    key, value, headers = park()
    told = dict(headers)
    assert (key, value, told[envelope.REASON][:3]) == (b"k", b"", b"no_")
    assert sha256(LARGEST).hexdigest() in told[envelope.STUB].decode()
    assert sum(len(name) + len(text) for name, text in headers) < 16_384
