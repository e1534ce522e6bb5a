"""Payloads of other formats than JSON, through the row of their endpoint."""

import gzip
from datetime import UTC, datetime
from typing import Any

import cbor2
import orjson
import pytest
from pydantic import FiniteFloat
from typing_extensions import TypedDict

from clients.kafka.records import Outgoing, Payload
from shared.events import envelope
from shared.events.envelope import Position
from shared.flow_table import Flow
from shared.formats import Cbor, Csv, Form, Json, Raw
from shared.model import Arrival, Draft, Endpoint, EventType, MasterData
from tests.builders import Master, enriches


class Report(TypedDict):
    at: datetime
    temps: list[FiniteFloat]


class Line(TypedDict):
    hour: int
    kwh: float


def _told(payload: Any, arrival: Arrival, _master: MasterData) -> Draft:
    return Draft("told", arrival.arrived_ms, {"payload": payload})


def _of_report(report: Report, _arrival: Arrival, _master: MasterData) -> Draft:
    time_ms = int(report["at"].timestamp() * 1000)
    return Draft("told", time_ms, {"highest": max(report["temps"])})


FLOW = Flow(
    endpoints=(
        Endpoint("report", _of_report, ("told",), payload=Report, formats=(Cbor(),)),
        Endpoint("meter", _told, ("told",), payload=list[Line], formats=(Csv(),)),
        Endpoint("any", _told, ("told",), formats=(Json(any_type=True), Cbor(), Form())),
        Endpoint("hex", _told, ("told",), formats=(Raw(bytes.hex),)),
        Endpoint("bytes", _told, ("told",), formats=(Raw(),)),
        Endpoint("small", _told, ("told",), decompressed_bytes_max=100),
    ),
    event_types=(EventType("told"),),
    entities=(),
)
ENRICH = enriches(FLOW)
AT = datetime(2026, 1, 1, tzinfo=UTC)


def _enrich(endpoint: str, value: bytes, **headers: bytes) -> Outgoing:
    pairs = [(name.replace("_", "-"), text) for name, text in headers.items()]
    place = Position(f"ingest.{endpoint}.v1", 0, 7)
    return ENRICH(Payload(place, b"m-1", value, pairs, 1_700_000_000_000), Master())


def _event(out: Outgoing) -> Any:
    assert out.topic == "event.told.v1", dict(out.headers)
    return orjson.loads(out.value or b"")


def _reason(out: Outgoing) -> tuple[bytes, bytes]:
    assert out.topic == "dlq.enrich.v1"
    headers = dict(out.headers)
    return headers[envelope.REASON], headers[envelope.DETAIL]


def test_a_report_in_cbor_becomes_an_event() -> None:
    event = _event(_enrich("report", cbor2.dumps({"at": AT, "temps": [1.5, 21.5]})))
    assert (event["time_ms"], event["data"]) == (1_767_225_600_000, {"highest": 21.5})


def test_it_may_be_compressed() -> None:
    value = gzip.compress(cbor2.dumps({"at": AT, "temps": [1.5]}))
    assert _event(_enrich("report", value, content_encoding=b"gzip"))["data"] == {"highest": 1.5}


@pytest.mark.parametrize(
    ("value", "headers", "reason"),
    [
        (cbor2.dumps({"at": 5, "temps": [1.5]}), {}, (b"wrong_type", b"at: ")),
        (cbor2.dumps({"at": AT, "temps": [float("nan")]}), {}, (b"bad_value", b"temps.0: ")),
        (b"{}", {}, (b"not_cbor", b"byte ")),
        (b"{}", {"content_encoding": b"gzip"}, (b"not_gzip", b"in what begins at byte 0")),
        (b"{}", {"content_encoding": b"br"}, (b"unknown_encoding", b"'br' is not one of")),
        (gzip.compress(b""), {"content_encoding": b"gzip"}, (b"empty", b"there is nothing")),
    ],
)
def test_what_is_none_is_parked_as_it_came_with_the_place(
    value: bytes, headers: dict[str, bytes], reason: tuple[bytes, bytes]
) -> None:
    out = _enrich("report", value, **headers)
    assert out.value == value
    code, detail = _reason(out)
    assert (code, detail[: len(reason[1])]) == reason


def test_texts_are_numbers_where_the_contract_says_so() -> None:
    event = _event(_enrich("meter", b"hour,kwh\n1,2.5\n2,3\n"))
    assert event["data"]["payload"] == [{"hour": 1, "kwh": 2.5}, {"hour": 2, "kwh": 3.0}]


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        (b"hour,kwh\n1,2.5\n2,much\n", b"1.kwh: Input should be a valid number"),
        (b"hour,kwh\n1,nan\n", b"0.kwh: not a finite number"),
        (b"hour\n1\n", b"0.kwh: Field required"),
    ],
)
def test_and_are_told_by_their_line_where_they_are_none(value: bytes, detail: bytes) -> None:
    assert _reason(_enrich("meter", value))[1].startswith(detail)


@pytest.mark.parametrize(
    ("content_type", "value", "payload"),
    [
        (b"application/json", b"[1]", [1]),
        (b"Application/JSON; charset=utf-8", b'"text"', "text"),
        (b"application/cbor", cbor2.dumps([1]), [1]),
        (b"application/x-www-form-urlencoded", b"a=1", {"a": "1"}),
        (b"", b"21.5", 21.5),
    ],
)
def test_the_content_type_chooses(content_type: bytes, value: bytes, payload: Any) -> None:
    headers = {"content_type": content_type} if content_type else {}
    assert _event(_enrich("any", value, **headers))["data"]["payload"] == payload


def test_a_content_type_of_no_format_is_parked() -> None:
    code, detail = _reason(_enrich("any", b"1", content_type=b"text/html"))
    assert (code, detail[:28]) == (b"unknown_content_type", b"'text/html' is not one of ap")


def test_an_endpoint_of_one_format_does_not_ask_for_its_name() -> None:
    """curl says of everything that it is a form."""
    event = _event(_enrich("hex", b"\x01\xff", content_type=b"application/x-www-form-urlencoded"))
    assert event["data"]["payload"] == "01ff"


def test_what_json_cannot_say_becomes_no_event() -> None:
    code, _ = _reason(_enrich("bytes", b"\x01\xff"))
    assert code == b"not_writable"


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_json_cannot_say_becomes_no_event(number: float) -> None:
    """It would be null there, against the event's contract."""
    value = cbor2.dumps({"deep": [number]})
    code, detail = _reason(_enrich("any", value, content_type=b"application/cbor"))
    assert (code, detail) == (b"not_writable", b"told: payload.deep.0: not a finite number")


def test_a_text_with_a_nul_becomes_no_event_in_whatever_format_it_came() -> None:
    value = cbor2.dumps({"note": "a\0b"})
    code, _ = _reason(_enrich("any", value, content_type=b"application/cbor"))
    assert code == b"nul_in_text"


def test_a_bomb_is_parked() -> None:
    bomb = gzip.compress(b'{"a": "' + b"0" * 1_000_000 + b'"}')
    code, detail = _reason(_enrich("small", bomb, content_encoding=b"gzip"))
    assert (code, detail) == (b"too_large", b"decompressed it has more than 100 bytes")


@pytest.mark.parametrize(
    ("formats", "why"),
    [
        ((), "has no format"),
        (Cbor(), "no tuple"),
        ((Cbor,), r"write one as Json\(\)"),
        ((Cbor(), Cbor()), "two formats have the content type 'application/cbor'"),
    ],
)
def test_formats_that_do_not_add_up_are_refused(formats: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Flow((Endpoint("any", _told, ("told",), formats=formats),), (EventType("told"),), ())


def test_a_contract_with_what_no_format_of_its_endpoint_has_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON has no datetime"):
        Flow((Endpoint("any", _told, ("told",), payload=Report),), (EventType("told"),), ())
