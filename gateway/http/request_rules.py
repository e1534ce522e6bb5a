"""Which request heads are taken: what two readers could read as two different requests is not.

Only what the parser (llhttp, strict) lets through is looked at here. Bare CR or LF, obs-fold,
spaces before a colon, control characters, several or odd Content-Lengths it refuses by itself;
tests/gateway/smuggling_corpus.py holds it to that.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from gateway.http.message import read_by_name
from gateway.http.problems import Problem, last_refusal, refused, retry_after

HEAD_BYTES_MAX = 32 * 1024
TARGET_BYTES_MAX = 8 * 1024
PAYLOADS = b"/v1/"  # below it are the routes of payloads and no others
HEADERS_MAX = 100
PIPELINED_MAX = 100

Headers = Sequence[tuple[bytes, bytes]]

_SINGLE = frozenset(
    {
        *(b"host", b"content-length", b"transfer-encoding", b"expect", b"upgrade"),
        # what decides over an event must not be said twice
        *(b"content-type", b"content-encoding", b"idempotency-key"),
    }
)
_MISSPELT = frozenset({b"content_length", b"transfer_encoding"})
_WITHOUT_BODY = frozenset({b"GET", b"HEAD"})
_WITH_BODY = frozenset({b"POST", b"PUT", b"PATCH"})
# At the desk. One without a length has no body, as RFC 9112 says, and many need none; where
# payloads go it may have lost it on the way.
_ORDERS = b"/api/"
# No two ways to read one character, so nothing here is slow. And nothing is possessive: Python
# before 3.11.5 lets through what does not match (CPython #101955).
_HOST = rb"(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?"
# RFC 3986, and no control character behind a percent sign either
_PLAIN = rb"[A-Za-z0-9._~!$&'()*+,;=:@/?-]*"
_ENCODED = rb"%(?:[2-689A-Fa-f][0-9A-Fa-f]|7[0-9A-Ea-e])"
_PATH = rb"/" + _PLAIN + rb"(?:" + _ENCODED + _PLAIN + rb")*"
_IS_HOST = re.compile(_HOST)
_IS_TARGET = re.compile(rb"(?!//)" + _PATH)
_IS_ABSOLUTE_TARGET = re.compile(rb"[Hh][Tt][Tt][Pp][Ss]?://(" + _HOST + rb")" + _PATH)


def judge(
    method: bytes, version: str, target: bytes, headers: Headers, arrived_bytes: int
) -> dict[bytes, bytes]:
    """The headers by their names; Problem if the request is not taken. Those that matter here have
    come once; of others that have come more than once it has the last. `arrived_bytes`: no fewer
    than the head has."""
    by_name = read_by_name(headers)
    if len(by_name) != len(headers):
        _check_repeats(headers)
    for name in _MISSPELT:
        if name in by_name:
            raise _bad("bad_framing", f"{_shown(name)} is written with a hyphen, or left out")
    if len(headers) > HEADERS_MAX or (
        arrived_bytes > HEAD_BYTES_MAX and _size_bytes(target, headers) > HEAD_BYTES_MAX
    ):
        raise head_too_large()
    host = by_name.get(b"host")
    _check_protocol(method, version)
    _check_host(host, version)
    _check_target(target, host)
    _check_framing(
        method, version, by_name.get(b"content-length"), by_name.get(b"transfer-encoding"), target
    )
    return by_name


def _size_bytes(target: bytes, headers: Headers) -> int:
    return len(target) + sum(len(name) + len(value) for name, value in headers)


def _check_repeats(headers: Headers) -> None:
    seen: set[bytes] = set()
    for name, _ in headers:
        if name in seen and name in _SINGLE:
            raise _bad("repeated_header", f"send {_shown(name)} once")
        seen.add(name)


@lru_cache(64)
def _check_protocol(method: bytes, version: str) -> None:
    if version not in ("1.1", "1.0"):
        raise _bad("bad_http_version", "speak HTTP/1.1 here")
    if method == b"CONNECT":
        raise last_refusal(
            405, "method_not_allowed", "this is no proxy: there is no CONNECT", {"allow": "GET"}
        )


@lru_cache(1024)  # clients name the same one again and again
def _check_host(host: bytes | None, version: str) -> None:
    if host is None:
        if version == "1.1":
            raise _bad("bad_host", "a request names its host, in one Host header")
    elif not _IS_HOST.fullmatch(host):
        raise _bad("bad_host", "Host is a name or an address, and a port if it is not the usual")


def _check_target(target: bytes, host: bytes | None) -> None:
    if len(target) > TARGET_BYTES_MAX:
        raise target_too_long()
    if _IS_TARGET.fullmatch(target):
        return
    absolute = _IS_ABSOLUTE_TARGET.fullmatch(target)
    if absolute is None:
        raise _bad("bad_target", "ask for a path that begins with one / and is encoded as a URL")
    if host is None or absolute[1].lower() != host.lower():
        raise _bad("bad_target", "the URL in the request line names another host than Host does")


def _check_framing(
    method: bytes, version: str, length: bytes | None, coding: bytes | None, target: bytes
) -> None:
    if coding is not None:
        if version == "1.0":
            raise _bad("bad_framing", "HTTP/1.0 has no Transfer-Encoding; send Content-Length")
        if coding.strip().lower() != b"chunked":
            raise _bad("bad_framing", "the one Transfer-Encoding that is known here is chunked")
    elif length is None and method in _WITH_BODY and not target.startswith(_ORDERS):
        raise last_refusal(
            411, "length_required", "say how long the body is, by Content-Length or in chunks"
        )
    if method in _WITHOUT_BODY and (coding or (length and length.strip(b" \t0"))):
        if target.startswith(PAYLOADS):
            raise payloads_come_by_post(ends_connection=True)
        raise _bad("body_not_expected", f"a {method.decode()} has no body here")


def expects_continue(version: str, expectation: bytes | None) -> bool:
    """Whether the client waits for a 100 before its body."""
    if expectation is None or version == "1.0":  # which knows no interim answers
        return False
    if expectation.strip().lower() != b"100-continue":
        raise last_refusal(417, "expectation_failed", "expect 100-continue, or nothing")
    return True


def head_too_large() -> Problem:
    return last_refusal(
        431,
        "head_too_large",
        f"a request has at most {HEADERS_MAX} headers, and {HEAD_BYTES_MAX} bytes beside its body",
    )


def target_too_long() -> Problem:
    return last_refusal(414, "target_too_long", f"a URL has at most {TARGET_BYTES_MAX} bytes here")


def too_many_pipelined() -> Problem:
    return last_refusal(
        503,
        "too_many_pipelined",
        f"at most {PIPELINED_MAX} requests of a connection wait for their answers; nothing of this "
        "one was written, send it again after them",
        retry_after(1),
    )


def payloads_come_by_post(*, ends_connection: bool = False) -> Problem:
    return refused(
        405,
        "method_not_allowed",
        "payloads come by POST",
        {"allow": "POST"},
        ends_connection=ends_connection,
    )


def _shown(name: bytes) -> str:
    return name.decode().title()


def _bad(code: str, detail: str) -> Problem:
    return last_refusal(400, code, detail)
