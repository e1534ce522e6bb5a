from hashlib import sha256
from typing import Any

import orjson
import pytest

from clients.kafka.messages import payload_of
from clients.kafka.records import Outgoing, Payload
from shared.events import envelope, redelivery
from shared.events.envelope import Header, Position, read_event
from shared.flow import FLOW
from shared.flow_table import Flow
from shared.model import (
    Arrival,
    Draft,
    Endpoint,
    EventType,
    Fields,
    MasterData,
    MissingMasterData,
    Rejected,
)
from shared.topic_names import LETTER_BYTES_MAX, RECORD_BYTES_MAX
from stream_jobs.enrich.enrich_payload import as_first_come
from tests.builders import Master, enriches
from tests.stream_jobs.messages import Message

ENRICH = enriches(FLOW)


def _enrich(value: bytes | None, key: bytes | None = b"device-0001", **headers: bytes) -> Outgoing:
    place = Position("ingest.telemetry.v1", 2, 17)
    pairs = [(name.replace("__", "-"), text) for name, text in headers.items()]
    return ENRICH(Payload(place, key, value, pairs, 1_700_000_000_000), Master())


def _enrich_status(value: bytes) -> Outgoing:
    place = Position("ingest.status.v1", 0, 5)
    return ENRICH(Payload(place, b"unregistered", value, [], 1_700_000_000_000), Master())


def test_a_payload_becomes_an_event_in_the_common_format() -> None:
    out = _enrich(b'{"value": 21.5}', ce_id=b"an-id", traceparent=b"00-trace")
    assert (out.topic, out.key) == ("event.reading.v1", b"device-0001")
    record = read_event(Position("event.reading.v1", 0, 0), out.value or b"")
    assert (record.id, record.origin.offset, record.data["value"]) == ("an-id", 17, 21.5)
    headers = dict(out.headers)
    assert headers[envelope.ID] == b"an-id"
    assert headers[envelope.ORIGIN] == b"ingest.telemetry.v1/2/17"
    assert headers["traceparent"] == b"00-trace"


def test_a_foreign_producers_payload_is_known_by_its_position() -> None:
    out = _enrich(b'{"value": 1}')
    assert orjson.loads(out.value or b"")["id"] == "ingest.telemetry.v1/2/17"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", b"empty"),
        (None, b"empty"),
        (b"{", b"not_json"),
        (b"\xff\xfe", b"not_json"),
        (b"\x00", b"not_json"),
        (b"[" * 100_000, b"not_json"),
        (b'{"value": NaN}', b"not_json"),
        (b"[1]", b"not_an_object"),
        (b'{"value": 1, "note": "\\u0000"}', b"nul_in_text"),
        (b'{"value": "x"}', b"wrong_type"),
        (b'{"value": 1e999}', b"not_json"),
    ],
)
def test_what_cannot_be_an_event_is_parked_byte_for_byte(
    value: bytes | None, reason: bytes
) -> None:
    out = _enrich(value, ce_id=b"an-id")
    headers = dict(out.headers)
    assert out.topic == "dlq.enrich.v1"
    assert out.value == value
    assert headers[envelope.REASON] == reason
    assert headers[envelope.ORIGIN] == b"ingest.telemetry.v1/2/17"
    assert headers[envelope.ID] == b"an-id"
    assert headers[envelope.DETAIL]


ARRIVED_MS = 1_700_000_000_000
TWO_HOURS_MS = 2 * 3600 * 1000


@pytest.mark.parametrize(
    ("received", "counts_as_ms"),
    [
        (b"%d" % (ARRIVED_MS - TWO_HOURS_MS), ARRIVED_MS - TWO_HOURS_MS),
        (b"%d" % (ARRIVED_MS + 1), ARRIVED_MS),  # that gateway's clock is ahead
        (b"-5", ARRIVED_MS),
        (b"", ARRIVED_MS),
        (b"soon", ARRIVED_MS),
        (b"9" * 400, ARRIVED_MS),
        ("²".encode(), ARRIVED_MS),
    ],
)
def test_a_payload_without_a_time_that_lay_in_a_spool_counts_by_its_receipt(
    received: bytes, counts_as_ms: int
) -> None:
    event = orjson.loads(_enrich(b'{"value": 1}', ce_receivedms=received).value or b"")
    assert (event["time_ms"], event["arrived_ms"]) == (counts_as_ms, ARRIVED_MS)
    own = b'{"value": 1, "at": "2023-11-14T22:00:00Z"}'
    event = orjson.loads(_enrich(own, ce_receivedms=received).value or b"")
    assert event["time_ms"] == 1_699_999_200_000


def test_what_lay_in_a_spool_counts_by_its_receipt_after_it_has_waited_in_a_lane_too() -> None:
    received = b"%d" % (ARRIVED_MS - TWO_HOURS_MS)
    waits = _enrich(b'{"value": 1}', key=b"device-9999", ce_id=b"x", ce_receivedms=received)
    place = Position("again.enrich.v1", 0, 3)
    headers = [*waits.headers, (envelope.ATTEMPT, b"1")]
    again_come = Payload(place, b"device-0001", waits.value, headers, ARRIVED_MS + 999)
    out = ENRICH(as_first_come(again_come, ["ingest.telemetry.v1"]), Master())
    event = orjson.loads(out.value or b"")
    assert (event["time_ms"], event["arrived_ms"]) == (ARRIVED_MS - TWO_HOURS_MS, ARRIVED_MS)


def test_an_escaped_backslash_before_u0000_is_no_nul() -> None:
    assert _enrich(rb'{"value": 1, "path": "C:\\u0000"}').topic == "event.reading.v1"


def test_a_payload_of_an_unknown_device_waits_and_names_what_it_misses() -> None:
    out = _enrich(b'{"value": 1}', key=b"device-9999")
    headers = dict(out.headers)
    assert (out.topic, out.value) == ("retry.enrich.v1", b'{"value": 1}')
    assert (headers[envelope.REASON], headers[envelope.DETAIL]) == (
        b"missing_device",
        b"device-9999",
    )


def test_an_event_that_its_topic_would_refuse_is_parked_alone() -> None:
    numbers = b"1e15," * 600_000  # written out, each is four times as long
    out = _enrich(b'{"value": 1, "numbers": [' + numbers[:-1] + b"]}")
    assert dict(out.headers)[envelope.REASON] == b"too_large"


def test_bytes_that_are_not_what_the_gateway_took_are_seen() -> None:
    told = sha256(b'{"value": 2}').hexdigest().encode()
    out = _enrich(b'{"value": 1}', ce_payloadsha256=told)
    assert dict(out.headers)[envelope.REASON] == b"corrupt"


@pytest.mark.parametrize(("key", "reason"), [(None, b"no_key"), (b"\xff", b"bad_key")])
def test_a_record_that_belongs_to_nobody_is_parked(key: bytes | None, reason: bytes) -> None:
    assert dict(_enrich(b"{}", key=key).headers)[envelope.REASON] == reason


def test_a_status_becomes_an_event_without_any_master_data() -> None:
    out = _enrich_status(b'{"status": "offline", "at": "2026-01-01T00:00:00Z", "why": "battery"}')
    assert (out.topic, out.key) == ("event.status_changed.v1", b"unregistered")
    event = orjson.loads(out.value or b"")
    assert event["data"] == {"status": "offline"}
    assert event["time_ms"] == 1_767_225_600_000


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{}", b"field_missing"),
        (b'{"status": "asleep"}', b"bad_value"),
        (b'{"status": true}', b"bad_value"),
        (b'{"status": "online", "at": 5}', b"wrong_type"),
        (b'{"status": "online", "at": "yesterday"}', b"bad_time"),
    ],
)
def test_a_payload_that_breaks_its_contract_is_parked_as_it_is(value: bytes, reason: bytes) -> None:
    out = _enrich_status(value)
    assert (out.topic, out.value) == ("dlq.enrich.v1", value)
    assert dict(out.headers)[envelope.REASON] == reason


def test_an_event_that_breaks_its_contract_never_reaches_its_topic() -> None:
    def careless(_payload: Fields, _arrival: Arrival, _master: MasterData) -> Draft:
        return Draft("reading", 0, {"value": "warm"})

    endpoint = Endpoint("telemetry", careless, emits=("reading",))
    flow = Flow((endpoint,), (EventType("reading", data=FLOW.event_type("reading").data),), ())
    place = Position("ingest.telemetry.v1", 0, 0)
    out = enriches(flow)(Payload(place, b"device-0001", b"{}", [], 0), Master())
    headers = dict(out.headers)
    assert (out.topic, headers[envelope.REASON]) == ("dlq.enrich.v1", b"off_contract")
    assert headers[envelope.DETAIL].startswith(b"reading: wrong_type: value: ")


def _typo(payload: Fields, _arrival: Arrival, _master: MasterData) -> Draft:
    return Draft("ping", 0, {"value": payload["valeu"]})


def _nothing(_payload: Fields, _arrival: Arrival, _master: MasterData) -> Draft | None:
    return None


@pytest.mark.parametrize(
    ("enrich", "detail"),
    [
        (
            _typo,
            f"KeyError: 'valeu' (test_enrich_payload.py, line {_typo.__code__.co_firstlineno + 1})",
        ),
        (_nothing, "TypeError: the enrichment of pings returned None, not a Draft"),
        (
            lambda *_: {"type": "ping"},
            "TypeError: the enrichment of pings returned {'type': 'ping'}",
        ),
    ],
)
def test_a_mistake_in_an_enrichment_says_what_and_where(enrich: Any, detail: str) -> None:
    flow = Flow((Endpoint("pings", enrich, emits=("ping",)),), (EventType("ping"),), ())
    place = Position("ingest.pings.v1", 0, 5)
    out = enriches(flow)(Payload(place, b"id", b'{"value": 1}', [], 0), Master())
    headers = dict(out.headers)
    assert (out.topic, headers[envelope.REASON]) == ("dlq.enrich.v1", b"enrich_failed")
    assert headers[envelope.DETAIL].decode().startswith(detail)


def test_an_event_too_deep_to_be_written_is_parked_as_that() -> None:
    out = _enrich(b'{"value": 1, "deep": ' + b"[" * 300 + b"]" * 300 + b"}")
    assert (out.topic, dict(out.headers)[envelope.REASON]) == ("dlq.enrich.v1", b"not_writable")


class UnsayableError(Exception):
    def __str__(self) -> str:
        raise ValueError("not even this")


@pytest.mark.parametrize(
    ("raised", "topic"),
    [
        (MissingMasterData("aircraft", 5), "retry.enrich.v1"),  # type: ignore[arg-type]
        (MissingMasterData("aircraft", None), "retry.enrich.v1"),  # type: ignore[arg-type]
        (Rejected(404, 5), "dlq.enrich.v1"),  # type: ignore[arg-type]
        (ValueError("lone \ud800"), "dlq.enrich.v1"),
        (UnsayableError(), "dlq.enrich.v1"),
    ],
    ids=["number", "nothing", "numbers", "surrogate", "unsayable"],
)
def test_whatever_an_enrichment_raises_stops_nobody_else(raised: Exception, topic: str) -> None:
    def careless(_payload: Fields, _arrival: Arrival, _master: MasterData) -> Draft:
        raise raised

    endpoint = Endpoint("telemetry", careless, emits=("reading",), master=("device",))
    flow = Flow((endpoint,), (EventType("reading"),), ())
    place = Position("ingest.telemetry.v1", 0, 0)
    out = enriches(flow)(Payload(place, b"device-0001", b"{}", [], 0), Master())
    assert (out.topic, out.value) == (topic, b"{}")
    assert all(isinstance(value, bytes) for _, value in out.headers)


def test_what_a_tenant_s_device_sends_is_looked_up_and_known_as_its() -> None:
    out = _enrich(b'{"value": 21.5}', key=b"acme/device-0001", ce_tenant=b"acme")
    assert (out.topic, out.key) == ("event.reading.v1", b"acme/device-0001")
    assert orjson.loads(out.value or b"")["entity_id"] == "acme/device-0001"
    headers = dict(out.headers)
    assert headers[envelope.SUBJECT] == b"acme/device-0001"
    assert headers[envelope.TENANT] == b"acme"


def test_master_data_of_one_tenant_is_not_that_of_another() -> None:
    out = _enrich(b'{"value": 21.5}', key=b"beta/device-0001")
    assert out.topic == "retry.enrich.v1"
    assert dict(out.headers)[envelope.DETAIL] == b"beta/device-0001"


@pytest.mark.parametrize(
    ("key", "asked", "found"),
    [
        (b"acme/d", "acme/device-0001", True),
        (b"beta/d", "acme/device-0001", False),
        (b"d", "acme/device-0001", False),
        (b"beta/d", "device-0001", True),  # of no tenant: for all
    ],
)
def test_a_payload_asks_for_no_row_of_another_tenant(key: bytes, asked: str, found: bool) -> None:
    def look_up(payload: Fields, arrival: Arrival, master: MasterData) -> Draft:
        row = master.find("device", payload["asks"])
        return Draft("seen", arrival.arrived_ms, {"found": row is not None})

    flow = Flow((Endpoint("see", look_up, ("seen",)),), (EventType("seen"),), ())
    body = orjson.dumps({"asks": asked})
    payload = Payload(Position("ingest.see.v1", 0, 0), key, body, [], 1_700_000_000_000)
    out = enriches(flow)(payload, Master())
    assert orjson.loads(out.value or b"")["data"] == {"found": found}


@pytest.mark.parametrize(
    ("key", "derived", "becomes"),
    [
        (b"d", "other", b"other"),
        (b"acme/d", "other", b"acme/other"),
        (b"acme/d", "acme/other", b"acme/other"),  # from the id that it was given
        (b"acme/d", "acme", b"acme/acme"),
        (b"d", "acme/other", None),
        (b"acme/d", "beta/other", None),
        (b"acme/d", "acme/beta/other", None),
        (b"acme/d", "acme/", None),
        (b"acme/d", "/other", None),
        (b"acme/d", "acme/../beta", None),
        (b"ACME/d", "other", None),
        (b"acme//d", None, None),
    ],
)
def test_an_id_that_a_domain_derives_stays_in_the_tenant(
    key: bytes, derived: str | None, becomes: bytes | None
) -> None:
    def derive(_payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
        return Draft("seen", arrival.arrived_ms, {}, entity_id=derived)

    flow = Flow((Endpoint("see", derive, ("seen",)),), (EventType("seen"),), ())
    payload = Payload(Position("ingest.see.v1", 0, 0), key, b"{}", [], 1_700_000_000_000)
    out = enriches(flow)(payload, Master())
    if becomes is None:
        assert (out.topic, out.key) == ("dlq.enrich.v1", key)
        assert dict(out.headers)[envelope.REASON] == b"bad_entity_id"
    else:
        assert (out.topic, out.key) == ("event.seen.v1", becomes)


ORIGIN = Position("ingest.telemetry.v1", 2, 17)
INGEST_TOPICS = {endpoint.topic for endpoint in FLOW.endpoints}


def _again(
    value: bytes, headers: list[Header] | None = None, key: bytes = b"device-0001", **facts: int
) -> Outgoing:
    first = redelivery.FirstArrival(ORIGIN, 1_700_000_000_000, **{"attempt": 1, **facts})
    headers = redelivery.headers_of([], first) if headers is None else headers
    place = Position("again.enrich.v1", 0, 3)
    payload = Payload(place, key, value, headers, 1_800_000_000_000)
    return ENRICH(as_first_come(payload, INGEST_TOPICS), Master())


def test_a_payload_that_comes_again_is_the_one_that_first_came() -> None:
    first_time = read_event(ORIGIN, _enrich(b'{"value": 21.5}').value or b"")
    out = _again(b'{"value": 21.5}', attempt=3, revision=2)
    assert read_event(ORIGIN, out.value or b"") == first_time._replace(attempt=3, revision=2)
    headers = dict(out.headers)
    assert headers[envelope.ORIGIN] == str(ORIGIN).encode()
    assert headers[envelope.REVISION] == b"2"


def test_what_fails_again_says_where_it_first_came_and_how_often_it_was_tried() -> None:
    for out in (_again(b"{", attempt=4), _again(b"{}", key=b"device-9999", attempt=4)):
        assert out.topic in ("dlq.enrich.v1", "retry.enrich.v1")
        found = redelivery.first_of(out.headers, INGEST_TOPICS)
        assert found == redelivery.FirstArrival(ORIGIN, 1_700_000_000_000, attempt=4)


def test_what_fails_the_first_time_says_all_that_it_needs_to_come_again() -> None:
    headers = _enrich(b"{", ce_attempt=b"7", ce_origin=b"ingest.status.v1/0/0").headers
    assert envelope.find(headers, envelope.ATTEMPT) is None  # whoever wrote that into it
    known = [*headers, (envelope.ATTEMPT, b"1")]
    assert redelivery.first_of(known, INGEST_TOPICS).origin == ORIGIN
    assert envelope.text(headers, envelope.ARRIVED) == "1700000000000"


def test_a_payload_cannot_say_that_it_stands_elsewhere_or_was_tried_before() -> None:
    out = _enrich(b'{"value": 1}', ce_attempt=b"7", ce_origin=b"ingest.status.v1/0/0")
    record = read_event(ORIGIN, out.value or b"")
    assert (record.origin, record.attempt) == (ORIGIN, 0)


def test_what_comes_again_from_nowhere_is_parked_with_what_it_lacks() -> None:
    out = _again(b'{"value": 21.5}', headers=[])
    headers = dict(out.headers)
    assert (out.topic, out.value) == ("dlq.enrich.v1", b'{"value": 21.5}')
    assert headers[envelope.REASON] == b"no_origin"
    assert headers[envelope.DETAIL] == b"the header ce_id is missing: it names the event"
    assert headers[envelope.ORIGIN] == b"again.enrich.v1/0/3"


@pytest.mark.parametrize(
    ("revision", "was_of", "topic"),
    [
        (1, b"device-0001", "event.reading.v1"),
        (1, b"device-0002", "dlq.enrich.v1"),
        (0, b"device-0002", "event.reading.v1"),  # a device may say there what it wants
    ],
)
def test_a_correction_does_not_move_an_event_to_another_entity(
    revision: int, was_of: bytes, topic: str
) -> None:
    first = redelivery.FirstArrival(ORIGIN, 1_700_000_000_000, attempt=1, revision=revision)
    headers = [*redelivery.headers_of([], first), (envelope.SUBJECT, was_of)]
    out = _again(b'{"value": 21.5}', headers)
    assert out.topic == topic
    if topic == "dlq.enrich.v1":
        assert dict(out.headers)[envelope.REASON] == b"correction_moves"


def test_a_record_whose_headers_cannot_be_read_is_parked_whole() -> None:
    place = Position("ingest.telemetry.v1", 2, 17)
    payload = payload_of(Message(place, b"device-0001", b'{"value": 1}', None, 1_700_000_000_000))  # type: ignore[arg-type]
    out = ENRICH(payload, Master())
    assert (out.topic, out.key, out.value) == ("dlq.enrich.v1", b"device-0001", b'{"value": 1}')
    headers = dict(out.headers)
    assert headers[envelope.REASON] == b"bad_headers"
    assert headers[envelope.ORIGIN] == b"ingest.telemetry.v1/2/17"


def _bytes_of(out: Outgoing) -> int:
    headers = sum(len(name) + len(told) for name, told in out.headers)
    return len(out.key or b"") + len(out.value or b"") + headers


_FOREIGN = 4 * 1024 * 1024


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (b"x" * (RECORD_BYTES_MAX - 200), {}),
        (b"x" * _FOREIGN, {"note": b"n" * (_FOREIGN - 300)}),
        (b"x" * 100, {"ce_id": b"i" * (2 * _FOREIGN - 400)}),
        (b"x" * 100, {"traceparent": b"t" * (2 * _FOREIGN - 400)}),
        (b"x" * (16 * 1024 * 1024), {}),  # compressed, a batch of it is small enough
    ],
    ids=["value", "value and header", "id", "trace", "uncompressed"],
)
def test_the_letter_of_the_largest_record_that_anyone_can_write_fits_into_its_topic(
    value: bytes, headers: dict[str, bytes]
) -> None:
    out = _enrich(value, **headers)
    assert out.topic == "dlq.enrich.v1"
    assert _bytes_of(out) < 64 * 1024
    told = dict(out.headers)
    assert told[envelope.REASON] == b"not_json"
    assert told[envelope.ORIGIN] == b"ingest.telemetry.v1/2/17"
    assert told[envelope.ID]
    stub = told[envelope.STUB].decode()
    assert "it stands at ingest.telemetry.v1/2/17" in stub
    assert f"its value has {len(value)} bytes and sha256 {sha256(value).hexdigest()}" in stub
    assert stub in told[envelope.DETAIL].decode()


def test_a_letter_that_fits_is_whole() -> None:
    value = b"x" * (LETTER_BYTES_MAX - 10_000)
    out = _enrich(value)
    assert out.value == value
    assert envelope.STUB not in dict(out.headers)


def test_what_waits_and_is_too_large_for_its_lane_waits_as_a_stub_and_is_then_parked() -> None:
    value = b'{"value": 1}' + b" " * (RECORD_BYTES_MAX - 300)
    place = Position("ingest.telemetry.v1", 2, 17)
    payload = Payload(place, b"device-0001", value, [], 1_700_000_000_000)
    waits = ENRICH(payload, Empty())
    assert waits.topic == "retry.enrich.v1"
    assert _bytes_of(waits) < 64 * 1024
    redelivery = ENRICH(payload._replace(value=waits.value, headers=waits.headers), Master())
    assert (redelivery.topic, dict(redelivery.headers)[envelope.REASON]) == (
        "dlq.enrich.v1",
        b"too_large",
    )
    assert (
        "it stands at ingest.telemetry.v1/2/17"
        in dict(redelivery.headers)[envelope.DETAIL].decode()
    )


def test_a_stub_whose_payload_was_given_anew_is_one_like_any_other() -> None:
    stub = dict(_enrich(b"x" * RECORD_BYTES_MAX).headers)[envelope.STUB]
    assert _enrich(b'{"value": 1}', ce_stub=stub).topic == "event.reading.v1"


@pytest.mark.parametrize("name", ["ce_id", "traceparent"])
def test_an_event_fits_into_its_topic_whatever_headers_its_payload_has(name: str) -> None:
    out = _enrich(b'{"value": 1}', **{name: b"h" * (RECORD_BYTES_MAX - 1000)})
    assert _bytes_of(out) < RECORD_BYTES_MAX - 1024


class Empty:
    def find(self, _table: str, _key: str) -> Fields | None:
        return None
