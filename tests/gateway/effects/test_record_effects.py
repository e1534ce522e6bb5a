from typing import Any

import orjson

from gateway.effects.record_effects import Ended, Fact, Listener, Made, Told, Waits
from shared.events.envelope import Header, Position, event_headers, event_value, failure_headers
from shared.flow import FLOW
from tests.builders import event_record

PAYLOAD = [("ce_id", b"p"), ("ce_type", b"ingest.telemetry")]
ORIGIN = Position("ingest.telemetry.v1", 0, 7)


def _listener(*ids: bytes) -> Listener:
    listener = Listener(FLOW)
    listener.ids.update(ids)
    return listener


def _event(**changes: Any) -> tuple[Position, list[Header], bytes]:
    record = event_record(3, **{"id": "p", "origin": ORIGIN.offset, **changes})
    return record.position, event_headers(record), event_value(record)


def test_an_event_tells_of_its_payload_and_of_no_other() -> None:
    made = Made(Position("event.reading.v1", 0, 3), "p", "reading", "device-0001")
    assert _listener(b"p").hear(*_event()) == Told("p", str(ORIGIN), made)
    assert _listener(b"q").hear(*_event()) is None


def test_each_of_several_events_says_which_it_is_and_of_how_many() -> None:
    heard = _listener(b"p").hear(*_event(id="p#1", part=1, parts=3))
    assert heard is not None
    assert isinstance(heard.fact, Made)
    assert (heard.payload_id, heard.fact.part, heard.fact.parts) == ("p", 1, 3)


def test_what_a_fold_has_derived_and_what_is_no_event_tell_nothing() -> None:
    place, headers, _ = _event()
    assert _listener(b"p").hear(*_event(cause="another")) is None
    assert _listener(b"p").hear(place, headers, b"nonsense") is None
    assert _listener(b"p").hear(place, [], b"{}") is None


def test_lanes_tell_that_it_waits_is_parked_or_dropped_and_why() -> None:
    why = failure_headers(PAYLOAD, "enrich", ORIGIN, "missing_device", "device-0001")
    dropped = orjson.dumps({"reason": "idle", "detail": "nothing new"})
    listener, told = _listener(b"p"), [("ce_id", b"p"), ("ce_origin", str(ORIGIN).encode())]

    def heard(topic: str, headers: list[Header], value: bytes = b"{}") -> Fact:
        found = listener.hear(Position(topic, 0, 0), headers, value)
        assert found is not None
        assert (found.payload_id, found.origin) == ("p", str(ORIGIN))
        return found.fact

    reason = "missing_device", "device-0001"
    assert heard("retry.enrich.v1", why) == Waits(*reason)
    assert heard("dlq.enrich.v1", why) == Ended("parked", "enrich", *reason)
    idle = Ended("dropped", "enrich", "idle", "nothing new")
    assert heard("dropped.enrich.v1", told, dropped) == idle


def test_a_letter_of_fold_or_persist_is_known_by_the_place_of_its_event() -> None:
    listener = _listener(b"p")
    assert listener.hear(*_event()) is not None
    place = _event()[0]
    why = failure_headers([], "fold", place, "fold_failed", "ZeroDivisionError")
    letter = Position("dlq.fold.v1", 0, 0)
    ended = Ended("parked", "fold", "fold_failed", "ZeroDivisionError")
    assert listener.hear(letter, why, b"{}") == Told("p", str(place), ended)
    other = failure_headers([], "fold", place._replace(offset=4), "fold_failed", "")
    assert listener.hear(letter, other, b"{}") is None


def test_it_reads_events_lanes_and_letters_and_no_payloads() -> None:
    assert set(Listener(FLOW).topics) == {
        *FLOW.event_topics,
        *("retry.enrich.v1", "dlq.enrich.v1", "dlq.fold.v1", "dlq.persist.v1"),
    }
