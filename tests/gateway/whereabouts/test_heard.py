"""What records tell of one payload, and what of its neighbours they do not."""

from typing import Any

import orjson

from clients.kafka.records import Record
from gateway.kafka_writer.partition_of_key import partition_of
from gateway.whereabouts.heard import Heard, line_in, lines_of
from gateway.whereabouts.later import delivery_in, version_with
from gateway.whereabouts.log_search import partitions_in
from shared.events.envelope import (
    DETAIL,
    ID,
    ORIGIN,
    REASON,
    Header,
    Position,
    event_headers,
    event_value,
)
from shared.flow import FLOW
from shared.ids import line_alone
from tests.builders import event_record

ORIGIN_PLACE = "ingest.telemetry.v1/0/7"


def heard(*records: Record) -> Heard:
    found = Heard(FLOW, "event-7", ORIGIN_PLACE)
    for record in records:
        found.hear(record)
    return found


def event(offset: int = 7, **changes: Any) -> Record:
    made = event_record(offset, **{"id": "event-7", "origin": 7, **changes})
    made = made._replace(origin=Position("ingest.telemetry.v1", 0, changes.get("origin", 7)))
    key = made.entity_id.encode()
    return Record(made.position, key, event_value(made), event_headers(made), 1_700_000_000_500)


def lane(topic: str, origin: str = ORIGIN_PLACE, **told: str) -> Record:
    headers: list[Header] = [(ID, b"event-7"), (ORIGIN, origin.encode())]
    headers += [(REASON, told.get("reason", "why").encode()), (DETAIL, b"so")]
    return Record(Position(topic, 0, 1), b"device-0001", b"{}", headers, 1_700_000_000_600)


def test_an_event_has_its_place_and_the_time_at_which_it_was_written() -> None:
    found = heard(event(), event(8), event(9, id="event-70"), event(9, origin=9))
    assert [*found.events] == ["event-7"]
    its = found.events["event-7"]
    assert (its.place, its.written_ms) == ("event.reading.v1/0/7", 1_700_000_000_500)
    assert found.is_whole
    assert heard(event(), event(8, revision=1)).events["event-7"].place == "event.reading.v1/0/8"


def test_of_several_events_it_is_known_how_many_there_are() -> None:
    found = heard(event(part=1, parts=2, id="event-7#1"))
    assert (found.parts, found.is_whole) == (2, False)
    found.hear(event(8, parts=2))
    assert found.is_whole


def test_lanes_and_dead_letters_tell_of_their_own_payload_alone() -> None:
    assert heard(lane("retry.enrich.v1", reason="missing_device")).waits == (
        "missing_device",
        "so",
    )
    assert heard(lane("retry.enrich.v1", "ingest.telemetry.v1/0/8")).waits is None
    parked = heard(lane("dlq.enrich.v1")).ended
    assert parked is not None
    assert (parked.how, parked.by, parked.reason) == ("parked", "enrich", "why")
    by_fold = heard(event(), lane("dlq.fold.v1", "event.reading.v1/0/7")).ended
    assert by_fold is not None
    assert by_fold.by == "fold"
    assert heard(event(), lane("dlq.fold.v1", "event.reading.v1/0/8")).ended is None


def gate(key: str, origin: str, **told: Any) -> Record:
    value = {
        **{"payloads": 3, "since_ms": 1_700_000_000_000, "origin": origin, "reason": "missing_a"},
        **{"detail": "a-1", "needs": {}, "full": False, "due_ms": None, "tries": 2},
        **told,
    }
    return Record(Position("gate.enrich.v1", 0, 0), key.encode(), orjson.dumps(value))


def test_a_line_s_gate_is_looked_for_in_its_own_partition() -> None:
    counts = {"gate.enrich.v1": 64}
    own, alone = lines_of("device-0008", "event-7")
    assert own != alone
    found = [partition for _, partition in partitions_in(counts, [own, alone])]
    assert found == sorted({partition_of(own, 64), partition_of(alone, 64)})
    assert len(found) == 2
    assert len(partitions_in(counts, None)) == 64


def line(*gates: Record) -> Any:
    return line_in(gates, "device-1", "event-7", Position("ingest.telemetry.v1", 0, 7))


def test_a_payload_waits_in_the_line_of_its_entity_or_alone() -> None:
    own = line(gate("device-1", ORIGIN_PLACE))
    assert (own.reason, own.detail, own.is_first, own.told["tries"]) == (
        *("missing_a", "a-1"),
        *(True, 2),
    )
    behind = line(gate("device-1", "ingest.telemetry.v1/0/3"))
    assert (behind.is_first, behind.behind["place"]) == (False, "ingest.telemetry.v1/0/3")
    alone = line(
        gate("device-1", "ingest.telemetry.v1/0/3"),
        gate(line_alone("device-1", "event-7"), ORIGIN_PLACE, reason="not_yet"),
    )
    assert (alone.reason, alone.is_first) == ("not_yet", True)
    # what has begun to wait later does not hold it up, nor does a gate that is no longer open
    assert line(gate("device-1", "ingest.telemetry.v1/0/8")) is None
    closed = gate("device-1", ORIGIN_PLACE)
    assert line(closed, closed._replace(value=None)) is None
    assert line(gate("device-2", ORIGIN_PLACE)) is None
    assert line(closed._replace(value=b"no JSON")) is None


def test_a_state_has_an_event_from_the_place_on_that_it_notes() -> None:
    place = Position("event.reading.v1", 0, 7)

    def state(**meta: Any) -> bytes:
        known = {"version": 4, "positions": {"event.reading.v1/0": 7}, **meta}
        return orjson.dumps({"count": 1, "_meta": known})

    assert version_with(state(), "event-7", place) == 4
    assert version_with(state(), "event-8", place._replace(offset=8)) is None
    assert version_with(state(), "event-8", place._replace(partition=1)) is None
    assert version_with(state(parked=["event-7"]), "event-7", place) is None
    assert version_with(state(asked={"event-1": 1}), "event-7", place) is None
    assert version_with(b"no JSON", "event-7", place) is None


def test_only_operators_hear_who_was_sent_an_event() -> None:
    value = {"hook": "office", "event_id": "event-7", "at_ms": 5, "try": 1, "status": 204}
    record = Record(Position("delivery.v1", 0, 1), b"device-1", orjson.dumps(value))
    (shown,) = delivery_in(record, "event-7", ["event-7"], knows_hooks=True)
    assert (shown.told["hook"], shown.told["status"]) == ("office", 204)
    (hidden,) = delivery_in(record, "event-7", ["event-7"], knows_hooks=False)
    assert hidden.told == {}
    assert [*delivery_in(record, "event-8", ["event-8"], knows_hooks=True)] == []
    assert [*delivery_in(record._replace(value=b"?"), "e", ["e"], knows_hooks=True)] == []
