import pytest

from gateway.http.problems import Problem
from gateway.http.request_rules import (
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    TARGET_BYTES_MAX,
    Headers,
    expects_continue,
    judge,
)

HOST = (b"host", b"gateway")
LENGTH = (b"content-length", b"9")


def read(method: bytes, version: str, target: bytes, headers: Headers) -> bool:
    """Whether the client waits for a 100."""
    by_name = judge(method, version, target, headers, HEAD_BYTES_MAX + 1)
    return expects_continue(version, by_name.get(b"expect"))


def _refusal(
    *headers: tuple[bytes, bytes],
    method: bytes = b"POST",
    version: str = "1.1",
    target: bytes = b"/v1/telemetry/device-0001",
) -> tuple[int, str]:
    with pytest.raises(Problem) as refused:
        read(method, version, target, headers)
    assert refused.value.outcome == "definite"
    assert refused.value.ends_connection
    return refused.value.status, refused.value.code


def test_an_ordinary_request_is_taken_and_expects_nothing() -> None:
    assert not read(b"POST", "1.1", b"/v1/telemetry/a", [HOST, LENGTH])
    assert not read(b"POST", "1.1", b"/v1/t", [HOST, (b"transfer-encoding", b"Chunked ")])
    assert not read(b"POST", "1.0", b"/v1/t", [LENGTH])
    assert not read(b"GET", "1.1", b"/state/a?meta=true", [HOST, (b"content-length", b"0")])


def test_an_expectation_is_told_to_an_http_1_1_client_alone() -> None:
    headers = [HOST, LENGTH, (b"expect", b"100-Continue")]
    assert read(b"POST", "1.1", b"/", headers)
    assert not read(b"POST", "1.0", b"/", headers)


@pytest.mark.parametrize("value", [b"", b"200-ok", b"100-continue, 100-continue"])
def test_other_expectations_fail(value: bytes) -> None:
    assert _refusal(HOST, LENGTH, (b"expect", value)) == (417, "expectation_failed")


SAID = [(b"content-type", b"application/json"), (b"idempotency-key", b"k")]


@pytest.mark.parametrize("header", [HOST, LENGTH, (b"expect", b"100-continue"), *SAID])
def test_what_frames_or_decides_over_an_event_comes_once(header: tuple[bytes, bytes]) -> None:
    assert _refusal(header, header) == (400, "repeated_header")


@pytest.mark.parametrize("name", [b"content_length", b"transfer_encoding"])
def test_a_framing_header_in_another_spelling_is_refused(name: bytes) -> None:
    assert _refusal(HOST, LENGTH, (name, b"9")) == (400, "bad_framing")


@pytest.mark.parametrize("coding", [b"gzip, chunked", b",chunked", b"identity", b"xchunked", b""])
def test_chunked_is_the_only_coding(coding: bytes) -> None:
    assert _refusal(HOST, (b"transfer-encoding", coding)) == (400, "bad_framing")


def test_http_1_0_has_no_chunks() -> None:
    chunked = (b"transfer-encoding", b"chunked")
    assert _refusal(HOST, chunked, version="1.0") == (400, "bad_framing")


@pytest.mark.parametrize("version", ["0.9", "2.0"])
def test_other_versions_are_refused(version: str) -> None:
    assert _refusal(HOST, LENGTH, version=version) == (400, "bad_http_version")


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"PATCH"])
def test_a_body_of_unsaid_length_is_refused(method: bytes) -> None:
    assert _refusal(HOST, method=method) == (411, "length_required")


def test_an_order_at_the_desk_needs_no_body_and_no_length() -> None:
    assert not read(b"POST", "1.1", b"/api/jobs/fold/resume", [HOST])


@pytest.mark.parametrize(
    "target", [b"/v1/api/d", b"/api", b"http://gateway/api/x", b"http://gateway/v1/telemetry/d"]
)
def test_elsewhere_a_length_is_needed(target: bytes) -> None:
    assert _refusal(HOST, target=target) == (411, "length_required")


@pytest.mark.parametrize("framing", [LENGTH, (b"transfer-encoding", b"chunked")])
def test_a_get_has_no_body(framing: tuple[bytes, bytes]) -> None:
    refused = _refusal(HOST, framing, method=b"GET", target=b"/state/device-0001")
    assert refused == (400, "body_not_expected")


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_a_get_with_a_body_where_payloads_go_hears_that_they_come_by_post(method: bytes) -> None:
    assert _refusal(HOST, LENGTH, method=method) == (405, "method_not_allowed")


def test_there_is_no_connect() -> None:
    assert _refusal(HOST, method=b"CONNECT") == (405, "method_not_allowed")


@pytest.mark.parametrize(
    "host", [b"gateway", b"a_b.example:8080", b"10.0.0.1", b"[::1]", b"[fe80::1]:80", b"gateway:"]
)
def test_a_host_is_a_name_or_an_address_and_a_port(host: bytes) -> None:
    read(b"GET", "1.1", b"/", [(b"host", host)])


@pytest.mark.parametrize(
    "host",
    [b"", b" ", b"a b", b"a,b", b"a@b", b"a/b", b"a:b", b"a:123456", b"[::1", b"\xe4", b"a\t"],
)
def test_any_other_host_is_refused(host: bytes) -> None:
    assert _refusal((b"host", host), method=b"GET") == (400, "bad_host")


def test_only_http_1_0_may_leave_the_host_out() -> None:
    assert _refusal(method=b"GET") == (400, "bad_host")
    read(b"GET", "1.0", b"/", [])


@pytest.mark.parametrize(
    "target", [b"/", b"/state/a.b_c:d@e?x=%20&y", b"http://gateway/x", b"HTTPS://Gateway/"]
)
def test_a_target_is_a_path_or_names_the_host(target: bytes) -> None:
    read(b"GET", "1.1", target, [HOST])


@pytest.mark.parametrize(
    "target",
    [
        *(
            b"",
            b"*",
            b"x",
            b"//gateway/x",
            b"/#x",
            b"/\\",
            b"/\x00",
            b"/\xff",
            b"/ ",
            b"/%",
            b"/%0a",
        ),
        *(
            b"/%7F",
            b"/%1",
            b"gateway:80",
            b"http://gateway",
            b"http://other/",
            b"http://a@gateway/",
        ),
        *(b"ftp://gateway/", b"http:///x", b"/a\n"),
    ],
)
def test_any_other_target_is_refused(target: bytes) -> None:
    assert _refusal(HOST, method=b"GET", target=target) == (400, "bad_target")


def test_what_is_too_long_is_refused() -> None:
    many: Headers = [(b"x", b"")] * (HEADERS_MAX - 1)
    read(b"GET", "1.1", b"/", [HOST, *many])
    assert _refusal(HOST, *many, *many[:1], method=b"GET") == (431, "head_too_large")
    left = HEAD_BYTES_MAX - len(b"/" + b"host" + b"gateway" + b"x")
    read(b"GET", "1.1", b"/", [HOST, (b"x", b"y" * left)])
    assert _refusal(HOST, (b"x", b"y" * (left + 1)), method=b"GET") == (431, "head_too_large")
    longest = b"/".ljust(TARGET_BYTES_MAX, b"x")
    read(b"GET", "1.1", longest, [HOST])
    assert _refusal(HOST, method=b"GET", target=longest + b"x") == (414, "target_too_long")
