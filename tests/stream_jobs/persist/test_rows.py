from dataclasses import replace
from typing import Any

import orjson
import pytest

from clients.kafka.records import Record
from shared.events.envelope import Position
from shared.events.event_reader import EventReader
from shared.flow import FLOW
from shared.folding import snapshot
from shared.folding.snapshot import Snapshot
from shared.ids import derived_event_id
from shared.model import EventType, Fields
from stream_jobs.persist.rows import DeadLetter, EventRow, GoneRow, RowMaker, StateRow, key_reuse

_MAKER = RowMaker.of(FLOW)
_ORIGIN = Position("ingest.telemetry.v1", 2, 7)


_PLACE = Position("event.reading.v1", 0, 5)
_TRACE = ("traceparent", b"00-1-2-01")


def _event(**changes: Any) -> Record:
    fields = {
        "entity_id": "device-0001",
        "id": "e1",
        "type": "reading",
        "time_ms": 1_000,
        "arrived_ms": 2_000,
        "origin": list(_ORIGIN),
        "data": {"value": 1},
        **changes,
    }
    return Record(_PLACE, b"device-0001", orjson.dumps(fields), [_TRACE])


def _deep_event() -> Record:
    """JSON can be read to a greater depth than it is written to."""
    event = _event(data={"deep": "here"})
    deep = b"[" * 400 + b"]" * 400
    return event._replace(value=(event.value or b"").replace(b'"here"', deep))


def _raw_event(value: bytes | None) -> Record:
    return Record(_PLACE, b"device-0001", value, [])


def _state(value: bytes | None) -> Record:
    return Record(Position("state.device.v1", 0, 5), b"device-0001", value, [])


def test_an_event_becomes_a_row_and_its_completion() -> None:
    row = _MAKER.make(_event())
    assert isinstance(row, EventRow)
    assert (row.event_id, row.type, row.entity_id) == ("e1", "reading", "device-0001")
    assert (row.time_ms, row.arrived_ms, row.origin) == (1_000, 2_000, str(_ORIGIN))
    assert row.completion_topic == "completion.reading.v1"
    headers = dict(row.completion_headers)
    assert headers["ce_id"].decode() == derived_event_id("completion", "e1")
    assert headers["ce_type"] == b"completion.reading"
    assert headers["traceparent"] == _TRACE[1]
    assert row.data == '{"value":1}'


@pytest.mark.parametrize(
    ("told", "known"),
    [
        (b"0a" * 32, "0a" * 32),
        (None, None),
        (b"", None),
        (b"0A" * 32, None),
        (b"0a" * 33, None),
        (b"0a" * 32 + b"\n", None),
        (b"\xff" * 64, None),
    ],
)
def test_the_payloads_sha256_is_taken_from_the_headers(
    told: bytes | None, known: str | None
) -> None:
    headers = [_TRACE] if told is None else [_TRACE, ("ce_payloadsha256", told)]
    row = _MAKER.make(_event()._replace(headers=headers))
    assert isinstance(row, EventRow)
    assert row.payload_sha256 == known


def test_the_letter_of_a_used_key_is_one_for_each_payload() -> None:
    def letter(position: Position, digest: str) -> DeadLetter:
        headers = [("ce_payloadsha256", digest.encode())]
        row = _MAKER.make(_event()._replace(position=position, headers=headers))
        assert isinstance(row, EventRow)
        return key_reuse(row, "ingest.telemetry.v1/2/1", "0" * 64)

    second_writing = _PLACE._replace(offset=99)
    assert letter(_PLACE, "1" * 64).id == letter(second_writing, "1" * 64).id
    assert letter(_PLACE, "1" * 64).id != letter(_PLACE, "2" * 64).id
    assert letter(_PLACE, "1" * 64).reason == "key_reuse"


def test_a_snapshot_becomes_a_row_without_its_bookkeeping() -> None:
    taken = Snapshot({"count": 3}, version=9, event_time_ms=1_000)
    row = _MAKER.make(_state(snapshot.encode(taken, "f")))
    assert isinstance(row, StateRow)
    assert (row.entity, row.id, row.version) == ("device", "device-0001", 9)
    assert orjson.loads(row.state) == {"count": 3}


def test_a_version_that_is_kept_says_which_events_are_in_it() -> None:
    maker = RowMaker.of(FLOW)
    positions = {"event.reading.v1/0": 7, "event.reading.v1/1": 0}

    def positions_of(maker: RowMaker, **known: Any) -> str | None:
        taken = Snapshot({"count": 3}, version=9, positions=positions, **known)
        row = maker.make(_state(snapshot.encode(taken, "f")))
        assert isinstance(row, StateRow)
        return row.positions

    assert orjson.loads(positions_of(maker) or "") == positions
    # of what is folded anew they are ahead
    assert positions_of(maker, asked={"event-1": 1}, emitted_to={}) is None
    without = replace(FLOW, entities=(replace(FLOW.entities[0], history=False),))
    assert positions_of(RowMaker.of(without)) is None


def test_a_deleted_snapshot_says_so_and_a_null_that_it_is_over() -> None:
    taken = Snapshot({"count": 0}, version=9, deleted=True)
    row = _MAKER.make(_state(snapshot.encode(taken, "f")))
    assert isinstance(row, StateRow)
    assert (row.version, row.deleted) == (9, True)
    gone = _MAKER.make(_state(None))
    assert isinstance(gone, GoneRow)
    assert (gone.entity, gone.id) == ("device", "device-0001")


def test_a_snapshot_has_a_completion_where_its_row_in_the_flow_asks_for_it() -> None:
    completed = replace(FLOW.entities[0], completions=True)
    maker = RowMaker.of(replace(FLOW, entities=(completed,)))
    record = _state(snapshot.encode(Snapshot({"count": 2}, version=2), "f"))
    silent, row = _MAKER.make(record), maker.make(record)
    assert isinstance(silent, StateRow)
    assert isinstance(row, StateRow)
    assert silent.completion_topic is None
    assert row.completion_topic == "completion.state.device.v1"
    headers = dict(row.completion_headers)
    assert headers["ce_type"] == b"completion.state.device"
    assert headers["ce_subject"] == b"device-0001"
    # an entity that was forgotten has another version 2
    later = record._replace(position=record.position._replace(offset=6))
    again = maker.make(later)
    assert isinstance(again, StateRow)
    assert dict(again.completion_headers)["ce_id"] != headers["ce_id"]
    assert maker.make(record) == row


def test_a_row_has_the_shape_of_today() -> None:
    def celsius(data: Fields) -> Fields:
        return {"value": (data["fahrenheit"] - 32) / 1.8}

    maker = replace(
        _MAKER,
        events=EventReader({_PLACE.topic: {"reading": EventType("reading", upcasters=(celsius,))}}),
    )
    row = maker.make(_event(data={"fahrenheit": 212}))
    assert isinstance(row, EventRow)
    assert row.data == '{"value":100.0}'
    again = maker.make(_event(data={"value": 100.0}, shape=2))
    assert isinstance(again, EventRow)
    assert again.data == row.data
    newer, broken = maker.make(_event(shape=3)), maker.make(_event(data={}))
    assert isinstance(newer, DeadLetter)
    assert isinstance(broken, DeadLetter)
    assert (newer.reason, broken.reason) == ("unknown_shape", "upcaster_failed")
    assert broken.detail.startswith("KeyError: 'fahrenheit' (test_rows.py, line ")


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (_raw_event(None), "no_value"),
        (_raw_event(b"{"), "no_json"),
        (_raw_event(b'{"a": "\xff"}'), "no_json"),
        (_raw_event(rb'{"a": "x\u0000"}'), "nul_in_text"),
        (_raw_event(rb'{"a": "\\\u0000"}'), "nul_in_text"),
        (_raw_event(b"{}"), "no_event"),
        (_raw_event(b"7"), "no_event"),
        (_event(id=5), "no_event"),
        (_event(time_ms="1"), "no_event"),
        (_event(arrived_ms=10**18), "no_event"),
        (_event(id="e\0"), "nul_in_text"),
        (_raw_event(rb'{"a": "\ud800"}'), "no_json"),
        (_raw_event(b'{"a": 1e400}'), "no_json"),
        (_raw_event(b'{"a": NaN}'), "no_json"),
        (_raw_event(b"[" * 2_000 + b"]" * 2_000), "no_json"),
        (_deep_event(), "not_writable"),
        (_event(id="e" * 2_001), "id_too_long"),
        (_event(entity_id="ä" * 1_001)._replace(key="ä".encode() * 1_001), "id_too_long"),
        (_state(b"{}")._replace(key=b"d" * 2_001), "id_too_long"),
        (_event(type="other"), "wrong_type"),
        (_event()._replace(key=b"device-0002"), "wrong_key"),
        (_event()._replace(key=None), "wrong_key"),
        (_state(b"[]"), "no_snapshot"),
        (_state(b'{"count": 1}'), "no_snapshot"),
        (_state(b'{"_meta": 1}'), "no_snapshot"),
        (_state(snapshot.encode(Snapshot({}, version=1.5), "f")), "no_snapshot"),  # type: ignore
        (_state(b"{}")._replace(key=None), "no_key"),
    ],
)
def test_what_can_be_no_row_is_parked_with_the_reason(record: Record, reason: str) -> None:
    letter = _MAKER.make(record)
    assert isinstance(letter, DeadLetter)
    assert letter.reason == reason
    assert letter.record is record


@pytest.mark.parametrize(
    ("data", "reason"), [({"a": "\0"}, "nul_in_text"), ({"a": {1, 2}}, "not_writable")]
)
def test_what_an_upcaster_makes_is_looked_at_as_well(data: Fields, reason: str) -> None:
    lifted = EventType("reading", upcasters=(lambda _: data,))
    letter = replace(_MAKER, events=EventReader({_PLACE.topic: {"reading": lifted}})).make(_event())
    assert isinstance(letter, DeadLetter)
    assert letter.reason == reason


def test_a_clock_that_stands_before_1970_is_no_reason_to_park() -> None:
    assert isinstance(_MAKER.make(_event(time_ms=-7_200_000)), EventRow)
    taken = Snapshot({"count": 1}, version=1, event_time_ms=-7_200_000)
    assert isinstance(_MAKER.make(_state(snapshot.encode(taken, "f"))), StateRow)


def test_an_escaped_backslash_before_u0000_is_text() -> None:
    assert isinstance(_MAKER.make(_event(data={"a": "\\u0000"})), EventRow)


def test_the_ledger_is_told_of_the_payload_or_of_an_event_that_came_from_none() -> None:
    places = []
    for origin in (_ORIGIN, Position("event.reading.v1", 0, 1)):
        row = _MAKER.make(_event(origin=list(origin)))
        assert isinstance(row, EventRow)
        places.append(row.ledger_place)
    assert places == [_ORIGIN, _PLACE]


@pytest.mark.parametrize(
    ("record", "place"),
    [
        (_event(data={"value": "\0"}), _ORIGIN),
        (_event(data={"value": "\0"}, origin=["event.reading.v1", 0, 1]), None),
        (_raw_event(b"{"), None),
        (_state(b"{}"), None),
    ],
)
def test_an_event_that_can_be_no_row_leaves_its_payload_parked(
    record: Record, place: Position | None
) -> None:
    letter = _MAKER.make(record)
    assert isinstance(letter, DeadLetter)
    assert letter.ledger_place == place


def test_a_correction_has_a_completion_of_its_own() -> None:
    row, first = _MAKER.make(_event(revision=3)), _MAKER.make(_event())
    assert isinstance(row, EventRow)
    assert isinstance(first, EventRow)
    assert (row.revision, first.revision) == (3, 0)
    headers, first_headers = dict(row.completion_headers), dict(first.completion_headers)
    assert headers["ce_id"] == derived_event_id("completion", "e1", "3").encode()
    assert headers["ce_id"] != first_headers["ce_id"]
    assert (headers["ce_revision"], first_headers.get("ce_revision")) == (b"3", None)


@pytest.mark.parametrize("revision", [-1, 1 << 63])
def test_a_revision_that_no_column_takes_is_parked(revision: int) -> None:
    letter = _MAKER.make(_event(revision=revision))
    assert isinstance(letter, DeadLetter)
    assert letter.reason == "bad_revision"
