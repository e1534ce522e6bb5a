from typing import Any

import orjson
import pytest

from shared.events import envelope
from shared.events.envelope import Position, event_value, failure_headers, read_event
from tests.builders import event_record


def test_an_event_is_read_as_it_was_written() -> None:
    record = event_record(attempt=2, time_ms=-7_200_000)
    assert read_event(record.position, event_value(record)) == record


@pytest.mark.parametrize("origin", [["t", 0], "abc", [[], 0, 1], ["t", "0", 1], ["t", 0, 1.5]])
def test_an_origin_that_is_no_place_makes_no_event(origin: object) -> None:
    record = event_record()
    value = orjson.loads(event_value(record)) | {"origin": origin}
    with pytest.raises(ValueError, match="no event"):
        read_event(record.position, orjson.dumps(value))


@pytest.mark.parametrize("name", ["time_ms", "arrived_ms"])
@pytest.mark.parametrize("time_ms", [(1 << 64) - 1, -(1 << 62), 1.5, "1", None])
def test_a_time_that_no_clock_shows_makes_no_event(name: str, time_ms: object) -> None:
    record = event_record()
    value = orjson.loads(event_value(record)) | {name: time_ms}
    with pytest.raises(ValueError, match="no event"):
        read_event(record.position, orjson.dumps(value))


@pytest.mark.parametrize("said", [5, None, "lone \ud800", "x" * 100_000, b"\xff"])
def test_whatever_a_domain_gives_as_reason_or_detail_travels(said: Any) -> None:
    headers = dict(failure_headers([], "enrich", Position("t", 0, 0), said, said))
    assert headers[envelope.REASON] == headers[envelope.DETAIL]
    assert 0 < len(headers[envelope.DETAIL]) <= 4096
