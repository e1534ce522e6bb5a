"""Records become events, in the shape that the user gives."""

from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from headrace_consumer import Position, Unreadable
from headrace_consumer.events import Reader, Record
from pydantic import BaseModel
from typing_extensions import TypedDict

from clients.kafka.records import Outgoing, Payload
from shared.events import envelope
from shared.events import envelope as product
from shared.flow import FLOW
from stream_jobs.enrich.enrich_payload import enricher
from tests.builders import Master

PLACE = Position("event.reading.v1", 2, 7)


class AsModel(BaseModel):
    value: float
    area: str


@dataclass
class AsDataclass:
    value: float
    area: str


class AsTypedDict(TypedDict):
    value: float
    area: str


def _written() -> Outgoing:
    """By enrich itself."""
    place = product.Position("ingest.telemetry.v1", 0, 3)
    told = [(envelope.ID, b"event-3"), (envelope.TYPE, b"ingest.telemetry")]
    payload = Payload(place, b"device-0001", b'{"value": 21.5}', told, 1_700_000_000_000)
    (made,) = enricher(FLOW)(payload, Master())
    return made


def _record(**changes: Any) -> Record:
    made = _written()
    return Record(PLACE, made.key, made.value, made.headers)._replace(**changes)


def test_an_event_is_what_the_product_has_written() -> None:
    event = Reader().read(_record())
    assert event is not None
    assert (event.id, event.type, event.entity_id) == ("event-3", "reading", "device-0001")
    assert (event.time_ms, event.revision, str(event.position)) == (
        1_700_000_000_000,
        0,
        "event.reading.v1/2/7",
    )
    assert event.data["value"] == 21.5
    assert event.headers["ce_origin"] == b"ingest.telemetry.v1/0/3"


@pytest.mark.parametrize("shape", [AsModel, AsDataclass, AsTypedDict])
def test_its_data_has_the_type_that_the_user_gives(shape: Any) -> None:
    event = Reader({"reading": shape}).read(_record())
    assert event is not None
    expected = {"value": 21.5, "area": "area-01"}
    assert event.data == (expected if shape is AsTypedDict else shape(**expected))


def test_other_types_are_passed_over() -> None:
    assert Reader({"alarm_raised": dict}).read(_record()) is None
    assert Reader({}).read(_record()) is None


def test_a_completion_s_data_is_its_whole_value() -> None:
    value = {"row_key": 7, "event_id": "event-3", "type": "reading", "entity_id": "device-0001"}
    headers = [
        ("ce_id", b"c-1"),
        ("ce_type", b"completion.reading"),
        ("ce_subject", b"device-0001"),
    ]
    record = Record(PLACE, b"device-0001", orjson.dumps(value), headers)
    event = Reader({"completion.reading": dict}).read(record)
    assert event is not None
    assert (event.id, event.data, event.time_ms) == ("c-1", value, None)
    assert event.about == "event-3"


@pytest.mark.parametrize("state", [{"count": 3, "_meta": {"version": 3}}, None])
def test_a_state_is_known_by_its_topic_and_place(state: Any) -> None:
    value = None if state is None else orjson.dumps(state)
    record = Record(Position("state.device.v1", 0, 9), b"device-0001", value, [])
    event = Reader({"state.device.v1": dict}).read(record)
    assert event is not None
    assert (event.id, event.entity_id, event.data) == ("state.device.v1/0/9", "device-0001", state)
    assert not event.has_id


def test_an_old_shape_is_lifted_before_it_is_typed() -> None:
    value = orjson.loads(_record().value or b"")
    old = {**value, "data": {"temp": 3, "area": "area-01"}}

    def lift(kind: str, shape: int, data: dict[str, Any]) -> dict[str, Any]:
        assert (kind, shape) == ("reading", 1)
        return {"value": data["temp"], "area": data["area"]}

    event = Reader({"reading": AsModel}, lift).read(_record(value=orjson.dumps(old)))
    assert event is not None
    assert event.data == AsModel(value=3, area="area-01")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"{", "not_json: "),
        (b"\xff", "not_json: "),
        (b"[" * 100_000, "not_json: "),
    ],
)
def test_what_is_no_json_says_so(value: bytes, says: str) -> None:
    with pytest.raises(Unreadable, match=says):
        Reader().read(_record(value=value))


def test_what_breaks_the_contract_says_where_and_shows_no_value() -> None:
    value = orjson.loads(_record().value or b"")
    broken = orjson.dumps({**value, "data": {"value": "a secret", "area": "area-01"}})
    with pytest.raises(Unreadable, match=r"off_contract: value: Input should be") as error:
        Reader({"reading": AsModel}).read(_record(value=broken))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(("told", "revision"), [(b"2", 2), (b"two", 0), (b"9" * 5000, 0)])
def test_a_correction_says_which_one_it_is(told: bytes, revision: int) -> None:
    event = Reader().read(_record(headers=[("ce_revision", told)]))
    assert event is not None
    assert event.revision == revision


def test_a_record_whose_headers_cannot_be_read_is_not_passed_over() -> None:
    with pytest.raises(Unreadable, match="bad_headers: why"):
        Reader({"reading": AsModel}).read(_record(headers=[], lacks="why"))
