"""What records of the topics tell of a traced payload's way."""

import orjson
import pytest

from clients.kafka.records import Record, outgoing_events
from shared.events import envelope
from shared.events.envelope import EventRecord, Header, Position
from shared.flow import FLOW
from shared.topic_names import DELIVERY_TOPIC
from stream_jobs.traces.span import Parent, Span, parent_in
from stream_jobs.traces.way import Way, by_time
from tests.builders import event_record

TRACE, POST = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GIVEN: Header = ("traceparent", f"00-{TRACE}-{POST}-01".encode())
ARRIVED_MS = 1_700_000_000_000


@pytest.fixture
def way() -> Way:
    return Way(FLOW)


def of_event(event: EventRecord, at_ms: int, kept: tuple[Header, ...] = (GIVEN,)) -> Record:
    (out,) = outgoing_events([event.position.topic], event, kept)
    return Record(event.position, out.key, out.value, out.headers, at_ms)


def reading(offset: int = 7, **changes: object) -> EventRecord:
    return event_record(offset, arrived_ms=ARRIVED_MS, **changes)


def of_state(version: int, positions: dict[str, int], at_ms: int) -> Record:
    meta = {"version": version, "positions": positions}
    value = orjson.dumps({"count": version, "_meta": meta})
    return Record(Position("state.device.v1", 0, version), b"device-0001", value, [], at_ms)


def of_completion(event_id: str, at_ms: int) -> Record:
    said = {
        "row_key": 5,
        "event_id": event_id,
        "type": "reading",
        "entity_id": "device-0001",
        "stored_at": "2023-11-14T22:13:20.300Z",
    }
    headers = [(envelope.ID, b"the completion"), GIVEN]
    place = Position("completion.reading.v1", 0, 3)
    return Record(place, b"device-0001", orjson.dumps(said), headers, at_ms)


def of_try(event_id: str, verdict: str) -> Record:
    said = {
        "hook": "mirror",
        "event_id": event_id,
        "try": 1,
        "at_ms": ARRIVED_MS + 900,
        "ms": 40,
        "status": 200 if verdict == "done" else 500,
        "verdict": verdict,
        "said": "" if verdict == "done" else "no room",
    }
    return Record(Position(DELIVERY_TOPIC, 0, 1), b"", orjson.dumps(said), [], ARRIVED_MS + 950)


def test_a_payloads_way_is_one_trace_from_its_post_to_the_webhook(way: Way) -> None:
    event = reading()
    (enriched,) = way.hear(of_event(event, ARRIVED_MS + 100))
    assert enriched.parent == Parent(TRACE, POST)
    assert (enriched.stage, enriched.name) == ("enrich", "enrich reading")
    assert (enriched.begin_ms, enriched.end_ms) == (ARRIVED_MS, ARRIVED_MS + 100)
    (folded,) = way.hear(of_state(4, {"event.reading.v1/0": 7}, ARRIVED_MS + 200))
    assert (folded.name, folded.parent) == ("fold reading into device", enriched.as_parent)
    assert (folded.begin_ms, folded.end_ms) == (ARRIVED_MS + 100, ARRIVED_MS + 200)
    assert folded.attributes["headrace.state.version"] == 4
    stored, sent = way.hear(of_completion(event.id, ARRIVED_MS + 400))
    assert (stored.stage, stored.parent) == ("persist", enriched.as_parent)
    assert (stored.begin_ms, stored.end_ms) == (ARRIVED_MS + 100, ARRIVED_MS + 300)
    assert (sent.stage, sent.parent) == ("relay", stored.as_parent)
    assert (sent.begin_ms, sent.end_ms) == (ARRIVED_MS + 300, ARRIVED_MS + 400)
    for id_, before in ((event.id, enriched), ("the completion", sent)):
        (delivered,) = way.hear(of_try(id_, "done"))
        assert (delivered.stage, delivered.parent) == ("forward", before.as_parent)
        assert delivered.end_ms - delivered.begin_ms == 40
        assert not delivered.error
    everything = [enriched, folded, stored, sent, delivered]
    assert {span.parent.trace_id for span in everything} == {TRACE}
    assert len({span.id for span in everything}) == len(everything)


def test_the_same_step_is_told_as_the_same_span_whoever_tells_it(way: Way) -> None:
    record = of_event(reading(), ARRIVED_MS + 100)
    assert way.hear(record) == Way(FLOW).hear(record)


def test_a_state_has_all_events_up_to_its_place_and_links_them(way: Way) -> None:
    others = "aaaabbbbccccddddeeeeffff00001111"
    other: Header = ("traceparent", f"00-{others}-{POST}-01".encode())
    spans = [
        *way.hear(of_event(reading(7), ARRIVED_MS + 1)),
        *way.hear(of_event(reading(8), ARRIVED_MS + 2, (other,))),
        *way.hear(of_event(reading(9), ARRIVED_MS + 3)),
    ]
    first, second = way.hear(of_state(2, {"event.reading.v1/0": 8}, ARRIVED_MS + 9))
    assert [one.parent for one in (first, second)] == [one.as_parent for one in spans[:2]]
    assert first.links == (Parent(others, second.id),)
    assert second.links == (Parent(TRACE, first.id),)
    (third,) = way.hear(of_state(3, {"event.reading.v1/0": 9}, ARRIVED_MS + 12))
    assert third.parent == spans[2].as_parent
    assert way.hear(of_state(4, {"event.reading.v1/0": 9}, ARRIVED_MS + 13)) == []


def test_what_follows_from_a_state_belongs_to_the_event_that_changed_it(way: Way) -> None:
    (enriched,) = way.hear(of_event(reading(), ARRIVED_MS + 100))
    place = Position("event.alarm_raised.v1", 0, 1)
    alarm = reading(position=place, id="alarm-1", type="alarm_raised", cause="event-7")
    (emitted,) = way.hear(of_event(alarm, ARRIVED_MS + 150, ()))
    assert (emitted.stage, emitted.name) == ("fold", "emit alarm_raised")
    assert emitted.parent == enriched.as_parent
    assert emitted.begin_ms == ARRIVED_MS + 100


@pytest.mark.parametrize(
    ("topic", "stage", "reason", "is_error"),
    [
        ("retry.enrich.v1", "enrich", "missing_master_data", False),
        ("dlq.enrich.v1", "enrich", "enrichment_failed", True),
        ("dlq.fold.v1", "fold", "fold_failed", True),
        ("dlq.persist.v1", "persist", "bad_event", True),
    ],
)
def test_what_waits_and_what_is_parked_is_told_with_its_reason(
    way: Way, topic: str, stage: str, reason: str, is_error: bool
) -> None:
    headers = [GIVEN, (envelope.REASON, reason.encode()), (envelope.DETAIL, b"in words")]
    record = Record(Position(topic, 0, 1), b"device-0001", b"{}", headers, ARRIVED_MS)
    (span,) = way.hear(record)
    assert (span.stage, span.name) == (stage, f"{stage}: {reason}")
    assert span.error == ("in words" if is_error else "")


def test_a_webhook_that_does_not_take_it_is_an_error(way: Way) -> None:
    way.hear(of_event(reading(), ARRIVED_MS))
    (span,) = way.hear(of_try("event-7", "failed"))
    assert span.error == "no room"
    assert span.attributes["http.response.status_code"] == 500


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",  # not sampled
        b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        b"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        b"00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
        b"00-4bf92f3577b34da6a3ce929d0e0e473x-00f067aa0ba902b7-01",
        "00-äbf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".encode(),
    ],
)
def test_a_trace_that_is_none_or_is_not_sampled_is_not_told(way: Way, given: bytes) -> None:
    assert parent_in([("traceparent", given)]) is None
    assert way.hear(of_event(reading(), ARRIVED_MS, (("traceparent", given),))) == []
    assert way.hear(of_state(1, {"event.reading.v1/0": 7}, ARRIVED_MS)) == []


@pytest.mark.parametrize("topic", Way(FLOW).topics)
@pytest.mark.parametrize("value", [None, b"", b"\xff", b"[]", b"{}", b'{"_meta": 1}'])
def test_whatever_stands_on_a_topic_stops_nobody(way: Way, topic: str, value: bytes | None) -> None:
    way.hear(of_event(reading(), ARRIVED_MS))
    way.hear(Record(Position(topic, 0, 1), b"device-0001", value, [GIVEN], ARRIVED_MS))


def test_the_newest_are_remembered(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_jobs.traces.way._KNOWN_MAX", 3)
    for number in range(10):
        way.hear(of_event(reading(number, entity_id=f"device-{number}"), ARRIVED_MS))
    assert len(way._known) == len(way._unfolded) == 3
    assert way.hear(of_try("event-2", "done")) == []
    assert len(way.hear(of_try("event-9", "done"))) == 1


def test_records_of_several_topics_are_heard_in_the_order_of_their_times(way: Way) -> None:
    records = [
        of_state(1, {"event.reading.v1/0": 7}, ARRIVED_MS + 2),
        of_event(reading(), ARRIVED_MS + 1),
    ]
    spans: list[Span] = [span for record in by_time(records) for span in way.hear(record)]
    assert [span.stage for span in spans] == ["enrich", "fold"]
