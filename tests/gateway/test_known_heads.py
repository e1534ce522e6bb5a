"""What was read once is known by its bytes, and nothing else is."""

import pytest

from gateway.exchange import Request
from gateway.known_heads import _MOST, KnownHeads

HEAD = b"POST /v1/telemetry/d HTTP/1.1\r\nHost: gateway\r\nContent-Length: 2\r\n\r\n"


def request(*more: tuple[bytes, bytes]) -> Request:
    headers = [(b"host", b"gateway"), (b"content-length", b"2"), *more]
    return Request("POST", b"/v1/telemetry/d", headers, dict(headers), "127.0.0.1")


def test_a_head_that_was_learnt_is_found_with_any_body_of_its_length() -> None:
    heads, learnt = KnownHeads(), request()
    assert heads.find(HEAD + b"{}") is None
    heads.learn(HEAD + b"{}", learnt)
    assert heads.find(HEAD + b"[]") == (learnt, len(HEAD))


@pytest.mark.parametrize(
    "data",
    [
        *(HEAD, HEAD + b"{", HEAD + b"{}x", HEAD + b"{}" + HEAD, HEAD[:-2], HEAD[1:] + b"{}"),
        *(b"\r\n" + HEAD + b"{}", HEAD.replace(b"2", b"3") + b"{}x", HEAD.lower() + b"{}", b""),
        *(HEAD.replace(b"/d", b"/e") + b"{}", HEAD[:-2] + b"X: y\r\n\r\n{}", b"\r\n\r\n", b"{}"),
    ],
)
def test_what_differs_in_a_byte_or_is_not_whole_is_not_found(data: bytes) -> None:
    heads = KnownHeads()
    heads.learn(HEAD + b"{}", request())
    assert heads.find(data) is None


@pytest.mark.parametrize("data", [HEAD, HEAD + b"{}x", HEAD + b"{}" + HEAD + b"{}", HEAD[:-4]])
def test_what_is_not_all_of_one_request_is_not_learnt(data: bytes) -> None:
    heads = KnownHeads()
    heads.learn(data, request())
    assert heads.find(HEAD + b"{}") is None
    assert heads.find(data) is None


@pytest.mark.parametrize(
    "header",
    [
        *((b"idempotency-key", b"k"), (b"traceparent", b"00-"), (b"date", b"today")),
        (b"authorization", b"Headrace-HMAC key="),
    ],
)
def test_what_is_another_each_time_takes_no_room(header: tuple[bytes, bytes]) -> None:
    heads = KnownHeads()
    heads.learn(HEAD + b"{}", request(header))
    assert heads.find(HEAD + b"{}") is None


def test_the_room_they_take_is_bounded() -> None:
    heads = KnownHeads()
    for number in range(_MOST + 1):
        heads.learn(HEAD.replace(b"/d", b"/%d" % number) + b"{}", request())
    assert heads.find(HEAD.replace(b"/d", b"/0") + b"{}") is None
    assert heads.find(HEAD.replace(b"/d", b"/%d" % _MOST) + b"{}") is not None
    long = HEAD[:-2] + b"X: " + b"y" * 600 + b"\r\n\r\n{}"
    heads.learn(long, request())
    assert heads.find(long) is None
