import orjson
import pytest

from shared import VERSION
from shared.events import envelope, redelivery
from shared.events.envelope import Header, Position, event_value, failure_headers
from shared.flow import FLOW
from shared.published.dead_letters import Attempt, Letter, noted, read
from shared.timestamps import is_time_ms
from tests.builders import event_record

ORIGIN = Position("ingest.telemetry.v1", 2, 17)
PLACE = Position("dlq.enrich.v1", 1, 5)
FIRST = Attempt(0, 1_700_000_001_000, "enrich", "not_json", "no JSON", "0.0.9")


def _letter(
    headers: list[Header], value: bytes | None = b"{", place: Position = PLACE, key: bytes = b"d-1"
) -> Letter:
    return read(FLOW, place, 1_700_000_009_000, key, value, headers)


def _failed(attempt: int = 0, own: tuple[Header, ...] = ()) -> list[Header]:
    first = redelivery.FirstArrival(ORIGIN, 1_700_000_000_000, attempt)
    return failure_headers(redelivery.headers_of(own, first), "enrich", ORIGIN, "not_json", "why")


def test_a_letter_tells_whose_it_is_and_what_went_wrong_when_and_with_which_version() -> None:
    letter = _letter(_failed(own=((envelope.ID, b"event-1"),)))
    assert (letter.endpoint, letter.entity_id, letter.event_id) == ("telemetry", "d-1", "event-1")
    assert (letter.origin, letter.payload) == (ORIGIN, ORIGIN)
    assert letter.arrived_ms == 1_700_000_000_000
    told = Attempt(0, 1_700_000_009_000, "enrich", "not_json", "why", VERSION)
    assert letter.attempts == (told,)


def test_a_letter_that_comes_back_is_the_same_one_and_knows_each_time_before() -> None:
    before = _letter(_failed())
    sent_on = noted(noted(before.headers, FIRST), before.last)
    back = _letter(_failed(attempt=2, own=tuple(sent_on)), b"changed", PLACE._replace(offset=9))
    assert back.id == before.id
    assert back.attempts == (FIRST, before.last, back.last)
    assert back.last.number == 2


def test_of_an_event_the_payload_that_it_came_from_is_told() -> None:
    record = event_record(attempt=3, origin=17)
    headers = failure_headers((), "fold", record.position, "fold_failed", "")
    place = Position("dlq.fold.v1", 0, 0)
    letter = _letter(headers, event_value(record), place, record.entity_id.encode())
    assert letter.origin == record.position
    assert letter.payload == Position("ingest.telemetry.v1", 0, 17)
    assert (letter.endpoint, letter.event_id) == ("telemetry", record.id)
    assert letter.last.number == 3


def test_what_follows_from_another_event_came_from_no_payload() -> None:
    record = event_record(cause="event-7")
    headers = failure_headers((), "persist", record.position, "refused_by_store", "")
    letter = _letter(headers, event_value(record), Position("dlq.persist.v1", 0, 0))
    assert letter.payload is None
    assert letter.endpoint is None


def test_a_letter_of_a_topic_that_the_flow_has_dropped_still_names_its_endpoint() -> None:
    origin = Position("ingest.gone.v1", 0, 1)
    letter = _letter(failure_headers((), "enrich", origin, "empty", ""), None)
    assert (letter.endpoint, letter.payload, letter.value) == ("gone", origin, None)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(envelope.ORIGIN, b"nowhere"), (envelope.ATTEMPT, b"-7"), (envelope.ATTEMPTS, b"[1]")],
        [(envelope.ORIGIN, b"t\0/0/1"), (envelope.REASON, b"\xff\0"), (envelope.ARRIVED, b"x")],
        [(envelope.ARRIVED, b"9" * 15)],
        [(envelope.ORIGIN, b"t/99999999999/1"), (envelope.ATTEMPT, b"9" * 15)],
        [(envelope.ATTEMPTS, orjson.dumps([FIRST._asdict() | {"number": 1 << 70 >> 8}]))],
    ],
)
@pytest.mark.parametrize("value", [None, b"", b"\xff\x00", b"x" * 1_048_576])
def test_whatever_anyone_wrote_is_a_letter(headers: list[Header], value: bytes | None) -> None:
    letter = _letter(headers, value, key=b"\xfe\0")
    assert letter.origin in (PLACE, Position("t\\0", 0, 1))
    assert (letter.last.stage, letter.last.number) == ("enrich", 0)
    assert letter.last.cause
    assert is_time_ms(letter.arrived_ms)
    assert letter.origin != PLACE or letter.payload is None
    assert letter.value == value
    texts = [letter.entity_id, letter.event_id, *letter.last[2:]]
    assert not any("\0" in text for text in texts if text)


def test_only_so_many_attempts_travel() -> None:
    headers: list[Header] = []
    for number in range(80):
        headers = noted(headers, FIRST._replace(number=number))
    earlier = _letter(headers).attempts[:-1]
    assert [attempt.number for attempt in earlier] == [*range(30, 80)]
