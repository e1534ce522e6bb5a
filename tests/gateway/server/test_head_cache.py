"""What was read once is known by its bytes, and nothing else is."""

import pytest

from gateway.http.message import Request
from gateway.server.head_cache import _MOST, KnownHeads

HEAD = b"POST /v1/telemetry/d HTTP/1.1\r\nHost: gateway\r\nContent-Length: 2\r\n\r\n"


def request(*more: tuple[bytes, bytes]) -> Request:
    headers = [(b"host", b"gateway"), (b"content-length", b"2"), *more]
    return Request("POST", b"/v1/telemetry/d", headers, dict(headers), "127.0.0.1")


def found(heads: KnownHeads, data: bytes) -> tuple[Request, int] | None:
    return heads.find(data, "127.0.0.1", None)


def test_a_head_that_was_learnt_is_found_with_any_body_of_its_length() -> None:
    heads, learnt = KnownHeads(), request()
    assert found(heads, HEAD + b"{}") is None
    heads.learn(HEAD + b"{}", learnt)
    assert found(heads, HEAD + b"[]") == (learnt, len(HEAD))


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
    assert found(heads, data) is None


@pytest.mark.parametrize("data", [HEAD, HEAD + b"{}x", HEAD + b"{}" + HEAD + b"{}", HEAD[:-4]])
def test_what_is_not_all_of_one_request_is_not_learnt(data: bytes) -> None:
    heads = KnownHeads()
    heads.learn(data, request())
    assert found(heads, HEAD + b"{}") is None
    assert found(heads, data) is None


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
    assert found(heads, HEAD + b"{}") is None


def test_the_room_they_take_is_bounded() -> None:
    heads = KnownHeads()
    for number in range(_MOST + 1):
        heads.learn(HEAD.replace(b"/d", b"/%d" % number) + b"{}", request())
    assert found(heads, HEAD.replace(b"/d", b"/0") + b"{}") is None
    assert found(heads, HEAD.replace(b"/d", b"/%d" % _MOST) + b"{}") is not None
    long = HEAD[:-2] + b"X: " + b"y" * 600 + b"\r\n\r\n{}"
    heads.learn(long, request())
    assert found(heads, long) is None


SIGNED = (
    b"Headrace-HMAC key=0123456789ab, ts=1700000000, nonce=%b, body="
    + b"c" * 64
    + b", signature="
    + b"d" * 64
)


def signed(nonce: bytes) -> bytes:
    return HEAD.replace(
        b"Content-", b"Authorization: " + SIGNED.replace(b"%b", nonce) + b"\r\nContent-"
    )


def learnt(heads: KnownHeads) -> None:
    value = SIGNED.replace(b"%b", b"first-one")
    heads.learn(signed(b"first-one") + b"{}", request((b"authorization", value)))


def test_a_signed_head_is_known_whatever_its_signature_and_has_its_own() -> None:
    heads = KnownHeads()
    learnt(heads)
    again = found(heads, signed(b"next-one") + b"[]")
    assert again is not None
    assert again[0].by_name == {
        **request().by_name,
        b"authorization": SIGNED.replace(b"%b", b"next-one"),
    }
    assert again[1] == len(signed(b"next-one"))
    first = found(heads, signed(b"first-one") + b"{}")
    assert first is not None
    assert b"first-one" in first[0].by_name[b"authorization"]


@pytest.mark.parametrize(
    "data",
    [
        *(
            HEAD + b"{}",
            signed(b"next-one"),
            signed(b"next-one") + b"{}x",
            signed(b"n")[1:] + b"{}",
        ),
        *(signed(b"n" + bad) + b"{}" for bad in (b"\n", b"\r", b"\0", b"\t", b";", b"\xff", b":")),
        signed(b"n").replace(b"Content-Length: 2", b"Content-Length: 3") + b"{}",
        signed(b"n").replace(b"\r\nContent-", b"\r\n folded\r\nContent-") + b"{}",
        signed(b"n").replace(b"Host", b"Authorization: Bearer t\r\nHost") + b"{}",
        signed(b"n").replace(b"Host", signed(b"n").split(b"\r\n")[2] + b"\r\nHost") + b"{}",
    ],
)
def test_what_differs_around_the_signature_or_could_be_no_part_of_one_is_not_found(
    data: bytes,
) -> None:
    heads = KnownHeads()
    learnt(heads)
    assert found(heads, data) is None


def test_a_head_without_a_signature_and_one_with_it_are_not_taken_for_each_other() -> None:
    heads = KnownHeads()
    heads.learn(HEAD + b"{}", request())
    assert found(heads, signed(b"next-one") + b"{}") is None


def test_a_head_that_says_twice_who_is_asking_is_not_learnt() -> None:
    """A certificate may have let it in; another connection has none."""
    heads = KnownHeads()
    twice = signed(b"first-one").replace(b"Host", b"Authorization: Bearer t\r\nHost")
    heads.learn(twice + b"{}", request())
    assert found(heads, twice + b"{}") is None
