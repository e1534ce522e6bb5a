"""The domain alone: no Kafka, no Spark, no server."""

from typing import Any

import orjson
import pytest
from flights import FLOW, Flight
from hypothesis import given
from hypothesis import strategies as st

from clients.kafka.records import Outgoing, Payload
from shared.contract import contract_of
from shared.events.envelope import EventRecord, Position, event_value
from shared.folding import snapshot
from shared.folding.applier import Applier
from shared.folding.snapshot import Snapshot
from tests.builders import enriches
from tests.flights.oracle import expected_flights

APPLIER = Applier(FLOW.entities[0], ring_size=64)
NOON_MS = 1_700_000_000_000

gates = st.sampled_from(["A1", "A2", "B3"])
messages = st.one_of(
    st.builds(lambda to: ("scheduled", {"origin": "FRA", "destination": to}), st.just("JFK")),
    st.builds(lambda gate: ("gate_changed", {"gate": gate}), gates),
    st.builds(lambda minutes: ("delayed", {"minutes": minutes}), st.integers(0, 90)),
    st.sampled_from([("departed", {}), ("arrived", {}), ("cancelled", {"reason": "fog"})]),
)
# with a time that is now and then before an earlier one's, or far ahead of its arrival
lives = st.lists(st.tuples(messages, st.integers(-5, 5), st.booleans()), min_size=1, max_size=30)


def _log(life: list[tuple[tuple[str, dict[str, Any]], int, bool]]) -> list[EventRecord]:
    """As enrich writes it: each type has a topic of its own, and its own positions there."""
    log: list[EventRecord] = []
    for number, ((kind, data), drift, far_ahead) in enumerate(life):
        earlier = sum(record.type == kind for record in log)
        log.append(
            EventRecord(
                position=Position(f"event.{kind}.v1", 0, earlier),
                entity_id="LH400",
                id=f"event-{number}",
                type=kind,
                time_ms=NOON_MS + 1000 * (number + drift) + 3_600_000 * far_ahead,
                arrived_ms=NOON_MS + 1000 * number,
                origin=Position("ingest.flight.v1", 0, number),
                attempt=0,
                data={"what": kind, **data},
            )
        )
    return log


def _apply(records: list[EventRecord], before: Snapshot | None = None) -> Snapshot:
    """On what comes back from the bytes of the snapshot before."""
    known = snapshot.decode(snapshot.encode(before, "fold")) if before else None
    after = APPLIER.apply("LH400", known, records).snapshot or before
    assert after is not None
    return after


def _expected(log: list[EventRecord]) -> dict[str, Any]:
    return expected_flights([orjson.loads(event_value(record)) for record in log])["LH400"]


def _interleaved(log: list[EventRecord], data: st.DataObject) -> list[EventRecord]:
    """The same topics, each in its order, read in any order among each other."""
    topics = data.draw(st.permutations([record.position.topic for record in log]))
    of_topic = {topic: iter([r for r in log if r.position.topic == topic]) for topic in topics}
    return [next(of_topic[topic]) for topic in topics]


@given(lives, st.data())
def test_in_whatever_order_the_types_are_read_a_flight_is_the_same(
    life: list[Any], data: st.DataObject
) -> None:
    log = _log(life)
    expected = _expected(log)
    assert _apply(log).state == expected
    assert _apply(_interleaved(log, data)).state == expected
    assert contract_of(Flight).breach(expected) is None


@given(lives, st.data())
def test_batch_cuts_and_overlaps_leave_a_flight_as_it_is(
    life: list[Any], data: st.DataObject
) -> None:
    log = _interleaved(_log(life), data)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=4)))
    flight: Snapshot | None = None
    for start, stop in zip([0, *cuts], [*cuts, len(log)], strict=True):
        again_from = data.draw(st.integers(0, start))
        if log[again_from:stop]:
            flight = _apply(log[again_from:stop], flight)
    assert flight is not None
    assert flight.state == _expected(log)
    assert flight.version == len(log)


@given(lives, st.data())
def test_a_message_that_is_an_event_twice_counts_once(life: list[Any], data: st.DataObject) -> None:
    once = _log(life)
    again_from = data.draw(st.integers(0, len(once) - 1))
    twice = [*once, *once[again_from:]]  # a batch of enrich that failed is written again
    places: dict[str, int] = {}
    for place, record in enumerate(twice):
        places[record.type] = places.get(record.type, -1) + 1
        position = record.position._replace(offset=places[record.type])
        twice[place] = record._replace(position=position)
    flight = _apply(twice)
    assert (flight.state, flight.version) == (_expected(once), len(once))


@pytest.mark.parametrize(
    ("kinds", "status"),
    [
        (["gate_changed"], "unknown"),
        (["scheduled"], "scheduled"),
        (["scheduled", "delayed"], "delayed"),
        (["departed", "delayed", "scheduled"], "departed"),
        (["arrived", "departed"], "arrived"),
        (["cancelled", "scheduled", "delayed"], "cancelled"),
    ],
)
def test_the_status_says_what_is_known_not_what_was_heard_last(
    kinds: list[str], status: str
) -> None:
    fields = {"origin": "FRA", "destination": "JFK", "gate": "A1", "minutes": 5, "reason": "fog"}
    log = _log([((kind, fields), 0, False) for kind in kinds])
    assert _apply(log).state["status"] == status


def test_a_gate_from_before_does_not_come_back() -> None:
    changes = [(("gate_changed", {"gate": gate}), drift, False) for gate, drift in
               (("A1", 0), ("B2", 0), ("A1", -2))]  # fmt: skip
    state = _apply(_log(changes)).state
    assert (state["gate"], state["gate_before"]) == ("B2", "A1")


class NoMasterData:
    def find(self, table: str, key: str) -> None:
        raise AssertionError(f"nothing is looked up, least of all {key} in {table}")


def _enrich(message: dict[str, Any]) -> Outgoing:
    place = Position("ingest.flight.v1", 0, 7)
    payload = Payload(place, b"LH400", orjson.dumps(message), [], NOON_MS)
    return enriches(FLOW)(payload, NoMasterData())


@pytest.mark.parametrize(
    "message",
    [
        {"what": "scheduled", "origin": "FRA", "destination": "JFK"},
        {"what": "gate_changed", "gate": "A1"},
        {"what": "delayed", "minutes": 25},
        {"what": "departed", "at": "2026-01-01T12:00:00Z"},
        {"what": "arrived"},
        {"what": "cancelled", "reason": "fog", "further": ["fields", "stay"]},
    ],
)
def test_every_message_becomes_an_event_of_its_kind(message: dict[str, Any]) -> None:
    event = _enrich(message)
    assert event.topic == f"event.{message['what']}.v1"
    assert orjson.loads(event.value or b"")["data"] == message


@pytest.mark.parametrize(
    ("message", "reason", "detail"),
    [
        ({}, "field_missing", "what: Field required"),
        ({"what": "diverted"}, "bad_value", "what: Input should be one of 'scheduled', "),
        ({"what": "delayed"}, "field_missing", "delayed.minutes: Field required"),
        ({"what": "delayed", "minutes": "5"}, "wrong_type", "delayed.minutes: Input should be a"),
        ({"what": "delayed", "minutes": -5}, "bad_value", "delayed.minutes: Input should be gr"),
        ({"what": "departed", "at": "noon"}, "bad_time", "at: not an RFC 3339 time"),
    ],
)
def test_a_broken_message_is_parked_and_says_what_is_wrong(
    message: dict[str, Any], reason: str, detail: str
) -> None:
    parked = _enrich(message)
    headers = dict(parked.headers)
    assert parked.topic == "dlq.enrich.v1"
    assert headers["ce_reason"].decode() == reason
    assert headers["ce_detail"].decode().startswith(detail)
