"""Requests that two readers may cut differently, each with the one thing that may become of it:
refused as a whole (`taken` is None), or taken as one request with exactly these bytes."""

from typing import NamedTuple

PATH = b"/v1/telemetry/device-0001"
BODY = b'{"a": 12}'
SMUGGLED = b"POST /v1/telemetry/smuggled HTTP/1.1\r\nHost: gateway\r\nContent-Length: 4\r\n\r\nevil"
CHUNKED = b"9\r\n" + BODY + b"\r\n0\r\n\r\n"
_LINE = b"POST " + PATH + b" HTTP/1.1"


class Vector(NamedTuple):
    name: str
    sent: bytes
    taken: bytes | None = None


def _post(
    *headers: bytes, body: bytes = BODY, line: bytes = _LINE, host: bytes = b"Host: gateway\r\n"
) -> bytes:
    return line + b"\r\n" + host + b"".join(h + b"\r\n" for h in headers) + b"\r\n" + body


def _length(value: bytes, body: bytes = BODY) -> bytes:
    return _post(b"Content-Length: " + value, body=body)


def _coding(value: bytes, *others: bytes, body: bytes = CHUNKED) -> bytes:
    return _post(b"Transfer-Encoding: " + value, *others, body=body)


def _chunks(body: bytes) -> bytes:
    return _coding(b"chunked", body=body)


def _line(line: bytes, host: bytes = b"Host: gateway\r\n") -> bytes:
    return _post(b"Content-Length: 9", line=line, host=host)


def _to(target: bytes, host: bytes = b"Host: gateway\r\n") -> bytes:
    return _line(b"POST " + target + b" HTTP/1.1", host)


def _with(header: bytes) -> bytes:
    return _post(header, b"Content-Length: 9")


_HIDDEN = b"0\r\n\r\n" + SMUGGLED

CORPUS = (
    # both framings
    Vector(
        "length_then_chunked",
        _post(b"Content-Length: 4", b"Transfer-Encoding: chunked", body=_HIDDEN),
    ),
    Vector("chunked_then_length", _coding(b"chunked", b"Content-Length: 4", body=_HIDDEN)),
    Vector("length_zero_and_chunked", _coding(b"chunked", b"Content-Length: 0")),
    Vector(
        "length_and_chunked_that_agree",
        _post(b"Content-Length: 19", b"Transfer-Encoding: chunked", body=CHUNKED),
    ),
    Vector(
        "length_and_coding_in_capitals",
        _post(b"CONTENT-LENGTH: 4", b"TRANSFER-ENCODING: CHUNKED", body=_HIDDEN),
    ),
    # Content-Length
    Vector("length_twice_the_same", _post(b"Content-Length: 9", b"Content-Length: 9")),
    Vector("length_twice_different", _post(b"Content-Length: 9", b"Content-Length: 0")),
    Vector("length_smaller_first", _post(b"Content-Length: 0", b"Content-Length: 9")),
    Vector("length_list_the_same", _length(b"9, 9")),
    Vector("length_list_different", _length(b"9,0")),
    Vector("length_plus", _length(b"+9")),
    Vector("length_minus", _length(b"-9")),
    Vector("length_hex", _length(b"0x9")),
    Vector("length_underscore", _length(b"0_9")),
    Vector("length_space_inside", _length(b"9 0")),
    Vector("length_exponent", _length(b"9e0")),
    Vector("length_fraction", _length(b"9.0")),
    Vector("length_quoted", _length(b'"9"')),
    Vector("length_empty", _length(b"")),
    Vector("length_word", _length(b"nine")),
    Vector("length_other_digits", _length("٩".encode())),
    Vector("length_over_64_bits", _length(b"18446744073709551625")),
    Vector("length_huge", _length(b"9" * 400)),
    Vector("length_vertical_tab", _length(b"\x0b9")),
    Vector("length_missing", _post(body=SMUGGLED)),
    Vector("length_missing_1_0", _post(line=b"POST " + PATH + b" HTTP/1.0", body=SMUGGLED)),
    Vector(
        "length_spelt_with_underscore",
        _post(b"Content_Length: 9", b"Content-Length: 0", body=SMUGGLED),
    ),
    Vector("length_leading_zeros", _length(b"009"), BODY),
    Vector("length_spaces_around", _length(b"  9 \t"), BODY),
    Vector(
        "length_too_short_for_what_follows",
        _length(b"3", body=b"abc" + b"\x00garbage\r\n\r\n"),
        b"abc",
    ),
    # Transfer-Encoding
    Vector("coding_gzip_chunked", _coding(b"gzip, chunked")),
    Vector("coding_chunked_gzip", _coding(b"chunked, gzip")),
    Vector("coding_chunked_twice", _coding(b"chunked, chunked")),
    Vector("coding_two_headers", _coding(b"chunked", b"Transfer-Encoding: chunked")),
    Vector("coding_chunked_and_identity", _coding(b"chunked", b"Transfer-Encoding: identity")),
    Vector("coding_identity", _coding(b"identity", body=SMUGGLED)),
    Vector("coding_identity_with_length", _coding(b"identity", b"Content-Length: 9", body=BODY)),
    Vector("coding_unknown", _coding(b"xchunked")),
    Vector("coding_unknown_with_length", _coding(b"cow", b"Content-Length: 9", body=BODY)),
    Vector("coding_parameter", _coding(b"chunked;q=1")),
    Vector("coding_quoted", _coding(b'"chunked"')),
    Vector("coding_empty", _coding(b"")),
    Vector("coding_comma_before", _coding(b",chunked")),
    Vector("coding_comma_after", _coding(b"chunked,")),
    Vector("coding_vertical_tab", _coding(b"\x0bchunked")),
    Vector("coding_nul", _coding(b"chunked\x00")),
    Vector("coding_folded", _coding(b"\r\n chunked")),
    Vector("coding_space_before_colon", _post(b"Transfer-Encoding : chunked", body=CHUNKED)),
    Vector("coding_tab_before_colon", _post(b"Transfer-Encoding\t: chunked", body=CHUNKED)),
    Vector(
        "coding_spelt_with_underscore", _post(b"Transfer_Encoding: chunked", b"Content-Length: 9")
    ),
    Vector("coding_behind_bare_cr", _with(b"X: y\rTransfer-Encoding: chunked")),
    Vector("coding_behind_bare_lf", _with(b"X: y\nTransfer-Encoding: chunked")),
    Vector(
        "coding_in_http_1_0",
        _post(b"Transfer-Encoding: chunked", body=CHUNKED, line=b"POST " + PATH + b" HTTP/1.0"),
    ),
    Vector("coding_capital", _coding(b"Chunked"), BODY),
    Vector("coding_tab_before", _coding(b"\tchunked"), BODY),
    Vector("coding_tab_after", _coding(b"chunked\t")),
    # chunks
    Vector("chunk_size_minus", _chunks(b"-9\r\n" + BODY + b"\r\n0\r\n\r\n")),
    Vector("chunk_size_plus", _chunks(b"+9\r\n" + BODY + b"\r\n0\r\n\r\n")),
    Vector("chunk_size_0x", _chunks(b"0x9\r\n" + BODY + b"\r\n0\r\n\r\n")),
    Vector("chunk_size_underscore", _chunks(b"0_9\r\n" + BODY + b"\r\n0\r\n\r\n")),
    Vector("chunk_size_space_before", _chunks(b" 9\r\n" + BODY + b"\r\n0\r\n\r\n")),
    Vector("chunk_size_space_after", _chunks(b"9 \r\n" + BODY + b"\r\n0\r\n\r\n")),
    Vector("chunk_size_empty", _chunks(b"\r\n" + BODY + b"\r\n0\r\n\r\n")),
    Vector("chunk_size_over_64_bits", _chunks(b"10000000000000009\r\n" + BODY + b"\r\n0\r\n\r\n")),
    Vector("chunk_size_huge", _chunks(b"ffffffffffffffff\r\n" + b"x" * 2000)),
    Vector("chunk_size_bare_lf", _chunks(b"9\n" + BODY + b"\r\n0\r\n\r\n")),
    Vector("chunk_size_bare_cr", _chunks(b"9\r" + BODY + b"\r\n0\r\n\r\n")),
    Vector("chunk_longer_than_its_size", _chunks(b"8\r\n" + BODY + b"\r\n0\r\n\r\n")),
    Vector("chunk_shorter_than_its_size", _chunks(b"a\r\n" + BODY + b"\r\n0\r\n\r\n")),
    Vector("chunk_without_crlf", _chunks(b"9\r\n" + BODY + b"0\r\n\r\n")),
    Vector("chunk_ends_in_lf", _chunks(b"9\r\n" + BODY + b"\n0\r\n\r\n")),
    Vector("chunk_ends_in_spaces", _chunks(b"9\r\n" + BODY + b"  0\r\n\r\n")),
    Vector("chunk_extension_bare_lf", _chunks(b"9;a\n" + BODY + b"\r\n0\r\n\r\n")),
    Vector("chunk_extension_bare_cr", _chunks(b"9;a\rb\r\n" + BODY + b"\r\n0\r\n\r\n")),
    Vector("chunk_extension_nul", _chunks(b"9;a=\x00\r\n" + BODY + b"\r\n0\r\n\r\n")),
    Vector("chunk_extension_unclosed_quote", _chunks(b'9;a="\r\n' + BODY + b"\r\n0\r\n\r\n")),
    Vector(
        "chunk_extension_without_end",
        _chunks(b"9;a=" + b"b" * 600_000 + b"\r\n" + BODY + b"\r\n0\r\n\r\n"),
    ),
    Vector("chunk_last_ends_in_lf", _chunks(b"9\r\n" + BODY + b"\r\n0\n\n")),
    Vector("chunk_size_leading_zeros", _chunks(b"0000009\r\n" + BODY + b"\r\n000\r\n\r\n"), BODY),
    Vector("chunk_size_capital", _chunks(b"A\r\n0123456789\r\n0\r\n\r\n"), b"0123456789"),
    Vector("chunk_extension", _chunks(b"9;a=b\r\n" + BODY + b"\r\n0\r\n\r\n"), BODY),
    Vector(
        "chunk_each_byte",
        _chunks(b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"),
        BODY,
    ),
    Vector("chunk_that_looks_like_an_end", _chunks(b"5\r\n0\r\n\r\n\r\n0\r\n\r\n"), b"0\r\n\r\n"),
    Vector("trailer", _chunks(b"9\r\n" + BODY + b"\r\n0\r\nX-Last: 1\r\n\r\n")),
    Vector("trailer_that_frames", _chunks(b"9\r\n" + BODY + b"\r\n0\r\nContent-Length: 4\r\n\r\n")),
    Vector("trailer_that_names_a_host", _chunks(b"9\r\n" + BODY + b"\r\n0\r\nHost: other\r\n\r\n")),
    # Host
    Vector("host_missing", _post(b"Content-Length: 9", host=b"")),
    Vector("host_twice", _with(b"Host: gateway")),
    Vector("host_twice_different", _with(b"Host: other")),
    Vector("host_empty", _post(b"Content-Length: 9", host=b"Host:\r\n")),
    Vector("host_list", _post(b"Content-Length: 9", host=b"Host: gateway, other\r\n")),
    Vector("host_with_user", _post(b"Content-Length: 9", host=b"Host: other@gateway\r\n")),
    Vector("host_with_path", _post(b"Content-Length: 9", host=b"Host: gateway/x\r\n")),
    Vector("host_with_space", _post(b"Content-Length: 9", host=b"Host: gate way\r\n")),
    Vector("host_bad_port", _post(b"Content-Length: 9", host=b"Host: gateway:80a\r\n")),
    Vector("host_open_bracket", _post(b"Content-Length: 9", host=b"Host: [::1\r\n")),
    Vector("host_high_bytes", _post(b"Content-Length: 9", host=b"Host: gatew\xc3\xa4y\r\n")),
    Vector("host_ipv6", _post(b"Content-Length: 9", host=b"Host: [::1]:8080\r\n"), BODY),
    # the request line
    Vector("target_absolute_other_host", _to(b"http://other" + PATH)),
    Vector("target_absolute_with_user", _to(b"http://gateway@other" + PATH)),
    Vector("target_absolute_other_scheme", _to(b"ftp://gateway" + PATH)),
    Vector("target_absolute_without_path", _to(b"http://gateway")),
    Vector("target_absolute_without_host", _to(b"http://gateway" + PATH, host=b"")),
    Vector("target_authority", _to(b"gateway:80")),
    Vector("target_asterisk", _to(b"*")),
    Vector("target_two_slashes", _to(b"//gateway" + PATH)),
    Vector("target_backslash", _to(b"/v1\\telemetry\\device-0001")),
    Vector("target_fragment", _to(PATH + b"#x")),
    Vector("target_nul", _to(PATH + b"\x00")),
    Vector("target_tab", _to(PATH + b"\tx")),
    Vector("target_high_byte", _to(PATH + b"\xff")),
    Vector("target_percent_nul", _to(PATH + b"%00")),
    Vector("target_percent_crlf", _to(PATH + b"%0d%0aHost:%20other")),
    Vector("target_percent_half", _to(PATH + b"?a=%4")),
    Vector("target_with_space", _to(PATH + b" x")),
    Vector("target_too_long", _to(PATH + b"?" + b"a" * 9000)),
    Vector("target_absolute", _to(b"http://Gateway" + PATH), BODY),
    Vector("target_query", _to(PATH + b"?a=b%20c"), BODY),
    Vector("method_lower_case", _line(b"post " + PATH + b" HTTP/1.1")),
    Vector("method_unknown", _line(b"POSTS " + PATH + b" HTTP/1.1")),
    Vector("method_odd_characters", _line(b"PO\x00ST " + PATH + b" HTTP/1.1")),
    Vector("method_after_space", _line(b" POST " + PATH + b" HTTP/1.1")),
    Vector("method_connect", b"CONNECT gateway:80 HTTP/1.1\r\nHost: gateway:80\r\n\r\n" + SMUGGLED),
    Vector("method_get_with_body", _line(b"GET /livez HTTP/1.1")),
    Vector(
        "method_get_with_chunks",
        _post(b"Transfer-Encoding: chunked", line=b"GET /livez HTTP/1.1", body=CHUNKED),
    ),
    Vector(
        "method_head_with_hidden_request",
        _post(b"Content-Length: %d" % len(SMUGGLED), line=b"HEAD /livez HTTP/1.1", body=SMUGGLED),
    ),
    Vector("version_0_9", b"GET /livez\r\n\r\n"),
    Vector("version_0_9_spelt_out", _line(b"POST " + PATH + b" HTTP/0.9")),
    Vector("version_2_0", _line(b"POST " + PATH + b" HTTP/2.0")),
    Vector("version_1_2", _line(b"POST " + PATH + b" HTTP/1.2")),
    Vector("version_long", _line(b"POST " + PATH + b" HTTP/1.10")),
    Vector("version_lower_case", _line(b"POST " + PATH + b" http/1.1")),
    Vector("version_missing", _line(b"POST " + PATH)),
    Vector("version_space_after", _line(_LINE + b" ")),
    Vector("http_2_preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    Vector("line_ends_in_lf", _post(b"Content-Length: 9").replace(b"\r\n", b"\n", 1)),
    Vector("lines_all_end_in_lf", _post(b"Content-Length: 9").replace(b"\r\n", b"\n")),
    Vector("empty_lines_before", b"\r\n\r\n" + _post(b"Content-Length: 9"), BODY),
    # headers
    Vector("header_folded", _with(b"X: y\r\n z")),
    Vector("header_folded_first", _post(b"Content-Length: 9", host=b" Host: gateway\r\n")),
    Vector("header_space_before_colon", _with(b"X : y")),
    Vector("header_without_name", _with(b": y")),
    Vector("header_without_colon", _with(b"X")),
    Vector("header_nul_in_name", _with(b"X\x00: y")),
    Vector("header_nul_in_value", _with(b"X: y\x00")),
    Vector("header_escape_in_value", _with(b"X: \x1b[31m")),
    Vector("header_delete_in_value", _with(b"X: \x7f")),
    Vector("header_bare_cr", _with(b"X: y\rz")),
    Vector("header_double_cr", _with(b"X: y\r")),
    Vector("headers_too_many", _post(*(b"X-%d: y" % n for n in range(100)), b"Content-Length: 9")),
    Vector(
        "headers_too_large",
        _post(*(b"X-%d: " % n + b"y" * 4000 for n in range(9)), b"Content-Length: 9"),
    ),
    Vector("header_too_large", _with(b"X: " + b"y" * 40_000)),
    Vector("header_high_bytes", _with(b"X: \xff\xfe"), BODY),
    Vector("header_that_reads_like_a_request", _LINE + b"\r\nX: " + SMUGGLED, b"evil"),
    Vector("body_that_reads_like_a_request", _length(b"%d" % len(SMUGGLED), SMUGGLED), SMUGGLED),
    # other protocols, and expectations
    Vector(
        "upgrade_h2c",
        _post(
            b"Connection: Upgrade, HTTP2-Settings",
            b"Upgrade: h2c",
            b"HTTP2-Settings: AAMAAABkAAQAAP__",
            b"Content-Length: 9",
        ),
        BODY,
    ),
    Vector(
        "upgrade_h2c_chunked",
        _coding(b"chunked", b"Connection: Upgrade", b"Upgrade: h2c"),
        BODY,
    ),
    Vector(
        "upgrade_websocket",
        _post(
            b"Connection: Upgrade",
            b"Upgrade: websocket",
            b"Sec-WebSocket-Version: 13",
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
            b"Content-Length: 9",
        ),
        BODY,
    ),
    Vector("upgrade_without_connection", _with(b"Upgrade: anything"), BODY),
    Vector(
        "upgrade_with_two_lengths",
        _post(b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 9", b"Content-Length: 0"),
    ),
    Vector(
        "upgrade_with_both_framings",
        _coding(b"chunked", b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 4"),
    ),
    Vector(
        "upgrade_twice",
        _post(b"Connection: Upgrade", b"Upgrade: h2c", b"Upgrade: a", b"Content-Length: 9"),
    ),
    Vector(
        "upgrade_around_a_hidden_request",
        _post(
            b"Connection: Upgrade",
            b"Upgrade: h2c",
            b"Content-Length: %d" % len(SMUGGLED),
            body=SMUGGLED,
        ),
        SMUGGLED,
    ),
    Vector("connection_upgrade_alone", _with(b"Connection: Upgrade"), BODY),
    Vector("expect_unknown", _with(b"Expect: 200-ok")),
    Vector("expect_list", _with(b"Expect: 100-continue, x")),
    Vector(
        "expect_twice",
        _post(b"Expect: 100-continue", b"Expect: 100-continue", b"Content-Length: 9"),
    ),
    # behind another request
    Vector("garbage_behind_a_refusal", _with(b"X : y") + SMUGGLED),
    Vector("request_behind_the_last", _with(b"Connection: close") + SMUGGLED, BODY),
    Vector("request_behind_http_1_0", _line(b"POST " + PATH + b" HTTP/1.0") + SMUGGLED, BODY),
    Vector(
        "request_behind_http_1_0_kept_alive",
        _post(b"Content-Length: 9", b"Connection: keep-alive", line=b"POST " + PATH + b" HTTP/1.0")
        + SMUGGLED,
        BODY,
    ),
)
