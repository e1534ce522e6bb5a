from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest

from gateway.kafka_writer.outcome import NotWritten, OutcomeUnknown
from tests.gateway.support import Gateway

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
AWKWARD = [b"\0", b"a\0b", b"\xff\xfe\xc3(", b"\r\n", b"{" * 900, bytes(range(256))]


def test_a_payload_gets_a_receipt_with_its_place_in_the_log(gateway: Gateway) -> None:
    answer = gateway.post()

    assert answer.status_code == 202
    assert answer.headers["location"] == "/state/device-0001"
    receipt = answer.json()
    assert receipt.keys() == {"id", "topic", "partition", "offset", "received_at"}
    assert (receipt["topic"], receipt["partition"], receipt["offset"]) == (
        "ingest.telemetry.v1",
        0,
        0,
    )
    assert UUID(receipt["id"]).version == 7
    (record,) = gateway.log.records
    assert (record.topic, record.key) == ("ingest.telemetry.v1", b"device-0001")
    assert record.headers == {
        "ce_specversion": b"1.0",
        "ce_id": receipt["id"].encode(),
        "ce_type": b"ingest.telemetry",
        "ce_source": b"/v1/telemetry",
        "ce_time": receipt["received_at"].encode(),
        "ce_payloadsha256": sha256(record.value).hexdigest().encode(),
    }


@pytest.mark.parametrize("body", AWKWARD, ids=repr)
def test_a_body_reaches_the_log_byte_for_byte(gateway: Gateway, body: bytes) -> None:
    assert gateway.post(content=body).status_code == 202
    assert gateway.log.records[0].value == body


def test_a_compressed_body_is_passed_on_as_it_is_and_says_so(gateway: Gateway) -> None:
    sent = {"content-encoding": "gzip", "content-type": "application/x-thing; a=b"}
    gateway.post(content=b"\x1f\x8bno gzip at all", headers=sent)

    (record,) = gateway.log.records
    assert record.value == b"\x1f\x8bno gzip at all"
    assert record.headers["content-encoding"] == b"gzip"
    assert record.headers["content-type"] == b"application/x-thing; a=b"


def test_a_well_formed_traceparent_is_kept(gateway: Gateway) -> None:
    gateway.post(headers={"traceparent": TRACE})
    assert gateway.log.records[0].headers["traceparent"] == TRACE.encode()


@pytest.mark.parametrize(
    "bad",
    ["", "nonsense", TRACE.upper(), TRACE + "-x", "ff" + TRACE[2:], f"00-{'0' * 32}-{'1' * 16}-01"],
)
def test_a_malformed_traceparent_is_left_out_and_the_payload_taken(
    gateway: Gateway, bad: str
) -> None:
    assert gateway.post(headers={"traceparent": bad}).status_code == 202
    assert "traceparent" not in gateway.log.records[0].headers


def test_the_same_idempotency_key_gives_the_same_event_id(gateway: Gateway) -> None:
    key = {"idempotency-key": "seq-17"}
    first = gateway.post(headers=key).json()["id"]

    assert gateway.post(headers=key, content=b"another body").json()["id"] == first
    assert UUID(first).version == 8
    assert gateway.post("/v1/telemetry/device-0002", headers=key).json()["id"] != first
    assert gateway.post(headers={"idempotency-key": "seq-18"}).json()["id"] != first


@pytest.mark.parametrize("bad", ["", "a b", "x" * 256, "caf\u00e9"])
def test_an_idempotency_key_that_is_not_visible_ascii_is_refused(
    gateway: Gateway, bad: str
) -> None:
    answer = gateway.post(headers={"idempotency-key": bad.encode("latin-1")})
    _refused(gateway, answer, 400, "bad_idempotency_key")


def test_two_idempotency_keys_are_refused(gateway: Gateway) -> None:
    answer = gateway.post(headers=[("idempotency-key", "a"), ("idempotency-key", "b")])
    _refused(gateway, answer, 400, "repeated_header")


@pytest.mark.parametrize("entity_id", ["a", "A1._:@-z", "9" * 128, "area%3A7"])
def test_an_entity_id_may_look_like_this(gateway: Gateway, entity_id: str) -> None:
    answer = gateway.post(f"/v1/telemetry/{entity_id}")
    assert answer.status_code == 202


@pytest.mark.parametrize(
    "bad",
    ["", "-a", ".a", "a/b", "a%2Fb", "a%C3", "a b", "\u00e4", "9" * 129, "a%20", "a/"],
)
def test_an_entity_id_outside_the_rule_is_refused_with_the_rule(gateway: Gateway, bad: str) -> None:
    answer = gateway.post(f"/v1/telemetry/{bad}")
    _refused(gateway, answer, 400, "bad_entity_id")
    assert "A-Z a-z 0-9" in answer.json()["detail"]


def test_who_wants_a_payload_tried_is_told_where_and_makes_no_entity(gateway: Gateway) -> None:
    answer = gateway.post("/v1/telemetry/device-0001:try")
    _refused(gateway, answer, 400, "ask_the_desk")
    assert "/api/try/telemetry/device-0001 " in answer.json()["detail"]
    assert gateway.post("/v1/telemetry/device-0001:tries").status_code == 202


def test_an_unknown_endpoint_is_told_which_there_are(gateway: Gateway) -> None:
    answer = gateway.post("/v1/telemetri/device-0001")
    _refused(gateway, answer, 404, "unknown_endpoint")
    assert "telemetry" in answer.json()["detail"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_another_method_is_told_which_is_allowed(gateway: Gateway, method: str) -> None:
    answer = gateway.ask(method, "/v1/telemetry/device-0001")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.headers["content-type"] == "application/problem+json"


def test_an_empty_body_is_refused(gateway: Gateway) -> None:
    _refused(gateway, gateway.post(content=b""), 400, "empty_body")


def test_a_body_of_exactly_the_cap_is_taken_and_one_byte_more_refused(gateway: Gateway) -> None:
    assert gateway.post(content=b"x" * 1000).status_code == 202
    gateway.log.records.clear()
    _refused(gateway, gateway.post(content=b"x" * 1001), 413, "body_too_large")


def test_a_record_that_was_not_written_is_refused_as_definite(gateway: Gateway) -> None:
    gateway.log.failure = NotWritten("kafka_unreachable", "Kafka is away")
    answer = gateway.post()
    _refused(gateway, answer, 503, "kafka_unreachable")
    assert answer.headers["retry-after"] == "1"


def test_a_record_without_an_answer_is_refused_as_unknown(gateway: Gateway) -> None:
    gateway.log.failure = OutcomeUnknown()
    answer = gateway.post()
    assert (answer.status_code, answer.json()["outcome"]) == (503, "unknown")
    assert answer.headers["retry-after"] == "1"


def test_a_fault_is_answered_without_its_text_and_as_unknown(gateway: Gateway) -> None:
    gateway.log.failure = RuntimeError("secret detail")
    answer = gateway.post()
    assert (answer.status_code, answer.json()["outcome"]) == (500, "unknown")
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret" not in answer.text


def test_more_requests_at_once_than_the_cap_are_refused_and_the_rest_taken(
    gateway: Gateway,
) -> None:
    """They come from one address, for which the last quarter of the room is not."""
    gateway.log.pause_s = 0.2
    answers = gateway.ask_all([_post(f"device-{n}", b"x" * 700) for n in range(8)])

    taken = [answer for answer in answers if answer.status_code == 202]
    assert len(taken) == len(gateway.log.records) == 3  # 3 x 700 of 3000 bytes
    assert {a.json()["code"] for a in answers if a not in taken} <= {
        *("too_many_bytes_of_caller", "too_many_bytes_in_flight")
    }
    assert gateway.post(content=b"x" * 900).status_code == 202


def test_more_payloads_being_written_at_once_than_the_cap_are_refused(gateway: Gateway) -> None:
    settings = gateway.settings.model_copy(update={"in_flight_payloads_max": 2})
    narrow = gateway.rebuilt(settings)
    gateway.log.pause_s = 0.2
    answers = narrow.ask_all([_post(f"device-{n}", b"x") for n in range(5)])

    assert sorted(answer.status_code for answer in answers) == [202, 202, 503, 503, 503]
    codes = {a.json()["code"] for a in answers if a.status_code == 503}
    assert codes == {"too_many_requests_in_flight"}
    assert narrow.post().status_code == 202


def _post(entity_id: str, body: bytes) -> tuple[str, str, dict[str, Any]]:
    return "POST", f"/v1/telemetry/{entity_id}", {"content": body}


def _refused(gateway: Gateway, answer: Any, status: int, code: str) -> None:
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["outcome"]) == (status, code, "definite")
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "instance"} <= problem.keys()
    assert gateway.log.records == []
