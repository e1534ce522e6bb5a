"""Payloads of several versions side by side."""

from typing import Any, NotRequired

import jsonschema_rs
import orjson
import pytest
from typing_extensions import TypedDict

from clients.kafka.records import Outgoing, Payload
from desk.trial.answer import answer, payload_of
from gateway.ingest.record import read_head
from gateway.server.openapi import _payload_schemas
from local_stack.contracts.breaking import HURTS_WRITERS, OTHER_KINDS, breaks
from shared.events import envelope
from shared.events.envelope import Position
from shared.flow_table import Flow
from shared.formats import ByField, ByMediaType, Form, Versions
from shared.model import Arrival, Draft, Endpoint, EventType, Example, Fields, MasterData
from shared.published.schemas.shapes import of_payload
from stream_jobs.enrich.enrich_payload import enricher
from tests.builders import Master


class Place(TypedDict):
    room: str


class First(TypedDict):
    gallons: float
    place: NotRequired[Place]


class OtherPlace(TypedDict):
    room: int


OtherPlace.__name__ = OtherPlace.__qualname__ = "Place"  # two may have a definition of one name


class Second(TypedDict):
    litres: float
    place: NotRequired[OtherPlace]


class Third(TypedDict):
    litres: float
    tap: str


def to_second(first: Fields) -> Fields:
    return {"litres": first["gallons"] * 4}


def to_third(second: Fields) -> Fields:
    return {"litres": second["litres"], "tap": "main"}


def to_draw(payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
    return Draft("drawn", arrival.at_ms, {"litres": payload["litres"], "tap": payload["tap"]})


SHAPES = {"1": First, "2": Second, "3": Third}
BY_FIELD = Versions(ByField("v"), SHAPES, (to_second, to_third), unnamed="1")
BY_TYPE = Versions(ByMediaType(), SHAPES, (to_second, to_third))


def _flow(versions: Versions, **more: Any) -> Flow:
    endpoint = Endpoint("draw", to_draw, ("drawn",), payload=versions, **more)
    return Flow((endpoint,), (EventType("drawn"),), ())


def _enrich(flow: Flow, value: bytes, media_type: bytes | None = None) -> Outgoing:
    headers = [(envelope.CONTENT_TYPE, media_type)] if media_type else []
    place = Position("ingest.draw.v1", 0, 0)
    (made,) = enricher(flow)(Payload(place, b"tap-1", value, headers, 1_700_000_000_000), Master())
    return made


def _data(made: Outgoing) -> Any:
    assert made.topic == "event.drawn.v1", dict(made.headers)
    return orjson.loads(made.value or b"")["data"]


def _refusal(made: Outgoing) -> tuple[str, str]:
    assert made.topic == "dlq.enrich.v1"
    headers = dict(made.headers)
    return headers[envelope.REASON].decode(), headers[envelope.DETAIL].decode()


@pytest.mark.parametrize(
    ("value", "litres", "tap"),
    [
        (b'{"gallons": 2}', 8, "main"),  # names none
        (b'{"v": "1", "gallons": 2}', 8, "main"),
        (b'{"v": 1, "gallons": 2}', 8, "main"),
        (b'{"v": 2, "litres": 2}', 2, "main"),
        (b'{"v": "3", "litres": 2, "tap": "left"}', 2, "left"),
    ],
)
def test_a_version_by_field_is_lifted_to_the_newest(value: bytes, litres: int, tap: str) -> None:
    assert _data(_enrich(_flow(BY_FIELD), value)) == {"litres": litres, "tap": tap}


@pytest.mark.parametrize(
    ("media_type", "value", "litres"),
    [
        (b"application/json; version=1", b'{"gallons": 2}', 8),
        (b'application/json;charset=utf-8; VERSION = "2"', b'{"litres": 2}', 2),
    ],
)
def test_a_version_by_a_parameter_of_the_content_type(
    media_type: bytes, value: bytes, litres: int
) -> None:
    assert _data(_enrich(_flow(BY_TYPE), value, media_type))["litres"] == litres


def test_each_is_held_to_the_contract_of_its_own_version() -> None:
    flow = _flow(BY_FIELD)
    said = "gallons: Field required"
    assert _refusal(_enrich(flow, b'{"litres": 2}')) == ("field_missing", said)
    assert _refusal(_enrich(flow, b'{"v": 2, "gallons": 2}'))[1] == "litres: Field required"
    assert _refusal(_enrich(flow, b'{"v": 3, "litres": 2}'))[1] == "tap: Field required"


def test_an_unknown_version_is_a_dead_letter_that_names_the_known_ones() -> None:
    assert _refusal(_enrich(_flow(BY_FIELD), b'{"v": 4}')) == (
        "unknown_version",
        "its field v says '4'; there are 1, 2, 3",
    )
    assert _refusal(_enrich(_flow(BY_TYPE), b"{}", b"application/json")) == (
        "unknown_version",
        "its parameter version of its content type names none; there are 1, 2, 3",
    )


def test_an_upcaster_that_fails_or_makes_no_newest_is_a_dead_letter_that_says_so() -> None:
    fails = Versions(ByField("v"), SHAPES, (to_second, lambda fields: fields["tap"]), "1")
    code, detail = _refusal(_enrich(_flow(fails), b'{"gallons": 1}'))
    assert code == "upcaster_failed"
    assert detail.startswith("from version 1: KeyError: 'tap' (test_versions.py, line ")
    lies = Versions(ByField("v"), SHAPES, (to_second, lambda fields: fields), "1")
    code, detail = _refusal(_enrich(_flow(lies), b'{"v": 2, "litres": 1}'))
    assert (code, detail) == (
        "upcaster_failed",
        "version 2 was lifted to what breaks version 3: tap: Field required",
    )


def test_what_breaks_its_contract_is_lifted_all_the_same_where_the_endpoint_lets_it_pass() -> None:
    flow = _flow(BY_FIELD, contract_mode="observe")
    place = Position("ingest.draw.v1", 0, 0)
    payload = Payload(place, b"tap-1", b'{"gallons": "2", "firmware": 7}', [], 1_700_000_000_000)
    event, counted = enricher(flow)(payload, Master())
    assert _data(event)["litres"] == "2222"
    told = orjson.loads(counted.value or b"")
    assert (told["place"], told["firmware"]) == ("gallons", "7")  # though lifting leaves it out
    (parked,) = enricher(flow)(payload._replace(value=b"{}"), Master())
    assert _refusal(parked)[0] == "field_missing"


def test_of_texts_each_version_makes_its_own_values() -> None:
    made = _enrich(_flow(BY_FIELD, formats=(Form(),)), b"v=2&litres=2.5")
    assert _data(made)["litres"] == 2.5


def test_a_trial_tells_the_version() -> None:
    flow = _flow(BY_FIELD)
    endpoint = flow.endpoints[0]
    payload = payload_of(endpoint, "tap-1", read_head({}), b'{"gallons": 2}')
    found = answer(flow, endpoint, payload, Master(), None)
    assert found["decoded"] == {"format": "Json", "version": "1", "value": {"gallons": 2}}
    assert found["events"][0]["data"]["litres"] == 8


def _fits(schema: Fields, value: Fields) -> bool:
    return bool(jsonschema_rs.validator_for(schema).is_valid(value))


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ({"gallons": 1.5}, True),
        ({"v": "1", "gallons": 1, "place": {"room": "a"}}, True),
        ({"v": 2, "litres": 1, "place": {"room": 1}}, True),
        ({"v": 2, "litres": 1, "place": {"room": "a"}}, False),
        ({"v": 3, "litres": 1}, False),
        ({"v": 4, "gallons": 1, "litres": 1, "tap": ""}, False),
        ({"litres": 1}, False),
    ],
)
def test_the_schema_is_one_of_the_versions(value: Fields, fits: bool) -> None:
    schema = of_payload(_flow(BY_FIELD).endpoints[0])
    assert [one["title"] for one in schema["oneOf"]] == ["version 1", "version 2", "version 3"]
    assert _fits(schema, value) is fits
    named = _payload_schemas(_flow(BY_FIELD).endpoints[0])  # as OpenAPI has it
    root = {"$ref": "#/components/schemas/draw.payload", "components": {"schemas": named}}
    assert _fits(root, value) is fits
    # and what fits becomes an event
    assert (_enrich(_flow(BY_FIELD), orjson.dumps(value)).topic == "event.drawn.v1") is fits


def test_a_further_version_breaks_no_device_and_one_that_goes_does() -> None:
    one, three = Endpoint("draw", to_draw, ("drawn",), payload=First), _flow(BY_FIELD).endpoints[0]
    two = Versions(ByField("v"), {"1": First, "2": Second}, (to_second,), "1")
    of_two = of_payload(_flow(two).endpoints[0])

    def hurts(old: Fields, new: Fields) -> list[str]:
        return [found.what for found in breaks(old, new) if found.what in HURTS_WRITERS]

    assert hurts(of_payload(one), of_two) == hurts(of_two, of_payload(three)) == []
    assert [found.what for found in breaks(of_two, of_payload(three))] == [OTHER_KINDS]
    assert hurts(of_payload(three), of_two)
    needs_a_name = Versions(ByField("v"), {"1": First, "2": Second}, (to_second,))
    assert hurts(of_payload(one), of_payload(_flow(needs_a_name).endpoints[0]))


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        (Versions("v", SHAPES, (to_second, to_third)), "by is a ByField"),  # type: ignore[arg-type]
        (Versions(ByField("v"), {"1": First}), "at least two shapes"),
        (Versions(ByField("v"), {"1": First, "b c": Second}, (to_second,)), "by names such as"),
        (Versions(ByField("v"), SHAPES, (to_second,)), "3 shapes need 2 upcasters"),
        (Versions(ByField("v"), SHAPES, (to_second, to_third), "0"), "unnamed is '0'"),
        (
            Versions(ByField("v"), {"1": First, "2": TypedDict("B", {"b": bytes})}, (to_second,)),
            "JSON has no bytes",
        ),
    ],
)
def test_versions_that_cannot_be_are_refused(versions: Versions, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        _flow(versions)


def test_an_example_is_held_to_its_version() -> None:
    _flow(BY_FIELD, example=Example("tap-1", {"v": 2, "litres": 1}))
    with pytest.raises(ValueError, match="litres: Field required"):
        _flow(BY_FIELD, example=Example("tap-1", {"v": 2}))
    with pytest.raises(ValueError, match="names no version"):
        _flow(BY_FIELD, example=Example("tap-1", {"v": 7}))
