"""A result is posted back, as often as it takes and with one effect."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from headrace_consumer import Event, Position
from headrace_consumer import answer as posting
from headrace_consumer.answer import NotAnswered, answer


class Gateway:
    """What it answers, one after the other; the last one for ever."""

    def __init__(self, *answers: Callable[[], httpx.Response]) -> None:
        self.answers = [*answers]
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        return (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])()


def _accepted() -> httpx.Response:
    return httpx.Response(202, json={"id": "receipt-1"})


def _refuses(status: int, code: str, **headers: str) -> Callable[[], httpx.Response]:
    said = {"code": code, "detail": "why"}
    return lambda: httpx.Response(status, json=said, headers=headers)


def _lost() -> httpx.Response:
    raise httpx.ReadTimeout("lost")


EVENT = Event(
    "event-1#2", "paid", "acme/order-7", {}, 0, 0, Position("event.paid.v1", 0, 0), {"ce_id": b""}
)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    now = [0.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(posting.time, "sleep", sleep)
    monkeypatch.setattr(posting.time, "monotonic", lambda: now[0])
    return slept


def _answer(gateway: Gateway, **options: Any) -> str:
    with httpx.Client(transport=httpx.MockTransport(gateway)) as client:
        return answer("http://gateway/", "shipped", EVENT, {"ok": True}, client=client, **options)


def test_the_result_goes_to_the_event_s_entity_with_its_id(pauses: list[float]) -> None:
    gateway = Gateway(_accepted)
    assert _answer(gateway, token="secret") == "receipt-1"
    (request,) = gateway.asked
    assert str(request.url) == "http://gateway/v1/shipped/order-7"
    assert json.loads(request.content) == {"ok": True, "asked": "event-1#2"}
    assert request.headers["idempotency-key"] == "answer:shipped:0:event-1%232"
    assert request.headers["authorization"] == "Bearer secret"
    assert not pauses


@pytest.mark.parametrize(
    "busy", [_refuses(503, "kafka_unreachable"), _refuses(429, "rate_limited"), _lost]
)
def test_what_passes_is_tried_again_under_one_key(busy: Any, pauses: list[float]) -> None:
    gateway = Gateway(busy, busy, busy, _accepted)
    assert _answer(gateway) == "receipt-1"
    assert len({request.headers["idempotency-key"] for request in gateway.asked}) == 1
    assert pauses == [0.5, 1.0, 2.0]


def test_it_waits_as_long_as_the_gateway_says(pauses: list[float]) -> None:
    slow = _refuses(429, "rate_limited", **{"retry-after": "7"})
    assert _answer(Gateway(slow, _accepted)) == "receipt-1"
    assert pauses == [7.0]


@pytest.mark.parametrize(("status", "code"), [(404, "unknown_endpoint"), (413, "body_too_large")])
def test_what_will_not_pass_is_told_at_once(status: int, code: str, pauses: list[float]) -> None:
    gateway = Gateway(_refuses(status, code))
    with pytest.raises(NotAnswered, match=f"refuses it: {status} {code}: why") as error:
        _answer(gateway)
    assert error.value.is_final
    assert len(gateway.asked) == 1
    assert not pauses


def test_it_gives_up_in_time_and_says_why(pauses: list[float]) -> None:
    with pytest.raises(NotAnswered, match=r"within 5 s: 503 spool_full: why") as error:
        _answer(Gateway(_refuses(503, "spool_full")), within_s=5)
    assert not error.value.is_final
    assert sum(pauses) <= 5


def test_of_a_completion_the_event_is_named_in_the_field_that_the_endpoint_wants(
    pauses: list[float],
) -> None:
    gateway = Gateway(_accepted)
    completion = replace(EVENT, id="completion-1", type="completion.paid", about="event-1")
    with httpx.Client(transport=httpx.MockTransport(gateway)) as client:
        answer("http://gateway", "shipped", completion, {}, named="order", client=client)
    assert json.loads(gateway.asked[0].content) == {"order": "event-1"}
    assert not pauses


def test_a_correction_and_an_event_of_a_long_id_have_keys_of_their_own(
    pauses: list[float],
) -> None:
    gateway = Gateway(_accepted)
    long = [replace(EVENT, id="x" * 900 + end) for end in "12"]
    with httpx.Client(transport=httpx.MockTransport(gateway)) as client:
        for event in (EVENT, replace(EVENT, revision=1), *long):
            answer("http://gateway", "shipped", event, {}, client=client)
    keys = {request.headers["idempotency-key"] for request in gateway.asked}
    assert len(keys) == 4
    assert max(map(len, keys)) <= 255
    assert not pauses


def test_another_entity_may_be_answered_for_but_of_no_other_tenant(pauses: list[float]) -> None:
    gateway = Gateway(_accepted)
    _answer(gateway, entity_id="acme/stock-1")
    _answer(gateway, entity_id="stock:2")
    assert [request.url.path for request in gateway.asked] == [
        "/v1/shipped/stock-1",
        "/v1/shipped/stock:2",
    ]
    with pytest.raises(ValueError, match="of another tenant"):
        _answer(gateway, entity_id="rival/stock-1")
    assert not pauses
