"""Bodies that are hard to take, each with what must become of it, worked out here and not by the
product: bytes that are random or changed at random are judged by `json` of the standard library."""

import gzip
import json
import math
import random
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

MIB = 1 << 20
GOOD_TIMES = (
    "2026-01-01T00:00:00Z",
    "1970-01-01T00:00:00+02:00",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999Z",
    "2026-02-28T23:59:59.123456789+23:59",
)
BAD_TIMES = (
    "",
    "yesterday",
    "2026-01-01T00:00:00",
    "2026-13-01T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "0001-01-01T00:00:00+01:00",
    "9999-12-31T23:59:59-01:00",
    "10000-01-01T00:00:00Z",
)
NO_TEXTS = ("0", "1e18", "null", "true", "[]", "{}", "1" * 300)


class Sent(NamedTuple):
    kind: str
    body: bytes
    # why it cannot be an event; None: it becomes one
    reason: str | None
    # what the gateway answers
    status: int = 202
    headers: dict[str, str] = {}  # noqa: RUF012 - nobody changes it
    chunked: bool = False
    says: Any = None  # what the event must say: the value as it was measured, or the status


class Randomness(random.Random):
    def text(self) -> str:
        ranges = ((0x20, 0x7E), (0xA0, 0x17F), (0x400, 0x4FF), (0x4E00, 0x4EFF), (0x1F600, 0x1F64F))
        return "".join(chr(self.randint(*self.choice(ranges))) for _ in range(self.randint(0, 20)))

    def number(self) -> float:
        return self.choice((self.randint(-100, 200), round(self.uniform(-100, 200), 3)))

    def json_value(self, depth: int = 0) -> Any:
        kinds = 5 if depth > 3 else 7
        match self.randrange(kinds):
            case 0:
                return None
            case 1:
                return self.random() < 0.5
            case 2:
                return self.number()
            case 3 | 4:
                return self.text()
            case 5:
                return [self.json_value(depth + 1) for _ in range(self.randrange(5))]
            case _:
                return {self.text(): self.json_value(depth + 1) for _ in range(self.randrange(5))}


class NotTaken(Exception):  # noqa: N818 - it is what happened
    """args: the reason."""


def parse(body: bytes) -> dict[str, Any]:
    """What a payload says, by the rules of RFC 8259 and the limits that this product adds."""
    holds_nul = False

    def text(value: Any) -> None:
        nonlocal holds_nul
        if isinstance(value, str):
            value.encode()  # UnicodeEncodeError for half a surrogate pair
            holds_nul |= "\0" in value

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        for name, value in found:
            text(name)
            look(value)
        return dict(found)

    def look(value: Any) -> None:
        text(value)
        for part in value if isinstance(value, list) else ():
            look(part)

    def number(literal: str) -> float:
        if math.isinf(value := float(literal)):
            raise ValueError("too large")
        return value

    def whole(literal: str) -> float:
        return int(literal) if len(literal) < 19 else number(literal)

    def constant(_name: str) -> None:
        raise ValueError("NaN and Infinity are no JSON")

    try:
        found = json.loads(
            body.decode(),
            object_pairs_hook=pairs,
            parse_float=number,
            parse_int=whole,
            parse_constant=constant,
        )
        look(found)
    except (ValueError, RecursionError) as error:
        raise NotTaken("not_json") from error
    if not isinstance(found, dict):
        raise NotTaken("not_an_object")
    if holds_nul:
        raise NotTaken("nul_in_text")
    return found


class Dialect(NamedTuple):
    """How a device speaks to an endpoint."""

    plain: str  # the least that becomes an event, without its braces
    says: Any
    kinds: list[Callable[[], Sent]]


def dialect(endpoint: str, temperature_field: str, rng: Randomness) -> Dialect | None:
    """None for an endpoint that nobody has written hard bodies for."""
    if endpoint == "telemetry":
        return Dialect(f'"{temperature_field}": 1', 1, _readings(temperature_field, rng))
    if endpoint == "status":
        return Dialect('"status": "online"', "online", _statuses(rng))
    return None


def hard_bodies(spoken: Dialect | None, rng: Randomness) -> Iterator[Sent]:
    """Without end."""
    kinds = [*_any_endpoint(rng), *(spoken.kinds if spoken else ())]
    while True:
        rng.shuffle(kinds)
        for kind in kinds:
            yield kind()


def large_bodies(spoken: Dialect | None, rng: Randomness) -> Iterator[Sent]:
    """Too large to have many of them."""
    exactly = rng.randbytes(MIB - 1) + b"\xff"  # which no UTF-8 text ends in
    bomb = gzip.compress(bytes(100 * MIB), mtime=0)
    zipped = {"content-encoding": "gzip", "content-type": "application/json"}
    yield Sent("exactly 1 MiB", exactly, "not_json")
    yield Sent("exactly 1 MiB, chunked", exactly[1:] + b"\xff", "not_json", chunked=True)
    yield Sent("1 MiB and a byte", exactly + b"x", None, 413)
    yield Sent("1 MiB and a byte, chunked", exactly + b"x", None, 413, chunked=True)
    yield Sent("a gzip bomb", bomb, "too_large", headers=zipped)
    yield Sent("a gzip bomb, chunked", bomb, "too_large", headers=zipped, chunked=True)
    yield Sent("100,000 lists, open", b"[" * 100_000, "not_json")
    yield Sent("100,000 lists, closed", b"[" * 100_000 + b"]" * 100_000, "not_json")
    yield Sent("100,000 objects", b'{"a":' * 100_000, "not_json")
    yield Sent("a number of 100,000 digits", b'{"value": %s}' % (b"7" * 100_000), "not_json")
    if spoken is not None:
        plain = spoken.plain.encode()
        deep = b'{%s, "a": %s%s}' % (plain, b"[" * 100_000, b"]" * 100_000)
        # as a part of an event it takes 3.8 MB
        grows = b'{%s, "all": [%s]}' % (plain, b",".join([b"1e15"] * 200_000))
        full = (b"{%s}" % plain).ljust(MIB)
        yield Sent("an object of exactly 1 MiB", full, None, says=spoken.says)
        yield Sent("an object with 200,000 numbers", grows, None, says=spoken.says)
        yield Sent("an object with 100,000 lists", deep, "not_json")


def _any_endpoint(rng: Randomness) -> list[Callable[[], Sent]]:
    """What no endpoint can take for an object, and what the gateway refuses."""

    def of(kind: str, make: Callable[[], bytes], reason: str) -> Callable[[], Sent]:
        return lambda: Sent(kind, make(), reason)

    def random_bytes() -> Sent:
        body = rng.randbytes(rng.randint(1, 2000))
        try:
            parse(body)
        except NotTaken as why:
            return Sent("random bytes", body, why.args[0])
        raise AssertionError("random bytes are an object: choose another seed")

    def scalar() -> bytes:
        value = rng.choice((None, True, False, rng.number(), rng.text()))
        return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode()

    def spoilt_text() -> bytes:
        bad = rng.choice((b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3"))
        return b'{"%s": "%s"}' % (rng.choice((b"value", b"note")), b"a" * rng.randrange(9) + bad)

    def half_a_pair() -> bytes:
        half = rng.choice((rb"\ud800", rb"\udfff", rb"\ude00\ud83d", rb"\ud83d\u0041"))
        return b'{"value": 1, "note": "%s"}' % half

    def nul() -> bytes:
        return rng.choice(
            (
                rb'{"value": 1, "temp_f": 1, "note": "a\u0000"}',
                rb'{"value": 1, "temp_f": 1, "a\u0000b": 1}',
                rb'{"value": 1, "temp_f": 1, "note": [{"x": "\\\u0000"}]}',
            )
        )

    def no_json() -> bytes:
        return rng.choice(
            (
                b"{",
                b"}",
                b"\x00",
                b"\x00" * rng.randint(1, 500),
                b"\xff\xfe",
                b"\xef\xbb\xbf{}",
                b"\r\n\r\n",
                b'{"value": 1,}',
                b"{'value': 1}",
                b'{"value": 1} {"value": 2}',
                b'{"value": 01}',
                b'{"value": .5}',
                b'{"value": 0x10}',
                b'{"value": +1}',
                b'{"value": "a\x00b"}',
                b'{"value": "a\nb"}',
                "{\u201cvalue\u201d: 1}".encode(),
                '{"value": 1}'.encode("utf-16"),
                b"value=1&temp_f=2",
                b"<reading><value>1</value></reading>",
            )
        )

    def beyond_double() -> bytes:
        number = rng.choice(
            (b"1e999", b"-1e999", b"NaN", b"-Infinity", b"9" * 400, b"1" + b"0" * 309)
        )
        return b'{"value": %s, "temp_f": %s}' % (number, number)

    def empty() -> Sent:
        return Sent("empty", b"", None, 400, chunked=rng.random() < 0.5)

    def header_too_long() -> Sent:
        name = rng.choice(("content-type", "content-encoding"))
        return Sent(f"a {name} too long", b"{}", None, 400, headers={name: "x" * 1025})

    def listed() -> bytes:
        return json.dumps([rng.json_value() for _ in range(rng.randrange(5))]).encode()

    return [
        random_bytes,
        random_bytes,
        of("a scalar", scalar, "not_an_object"),
        of("a list", listed, "not_an_object"),
        of("no UTF-8", spoilt_text, "not_json"),
        of("half a surrogate pair", half_a_pair, "not_json"),
        of("an escaped NUL", nul, "nul_in_text"),
        of("no JSON", no_json, "not_json"),
        of("beyond a double", beyond_double, "not_json"),
        empty,
        header_too_long,
    ]


def _readings(field: str, rng: Randomness) -> list[Callable[[], Sent]]:
    """Objects for the endpoint `telemetry`: readings, and what comes close to one."""

    def body(value: str, *more: str) -> bytes:
        return ("{" + ", ".join((f'"{field}": {value}', *more)) + "}").encode()

    def plain() -> Sent:
        raw = rng.number()
        rest = {f"r{rng.text()}": rng.json_value() for _ in range(rng.randrange(4))}
        whole = json.dumps({**rest, field: raw}, ensure_ascii=rng.random() < 0.5).encode()
        return Sent("a reading", whole, None, chunked=rng.random() < 0.3, says=raw)

    def mislabelled() -> Sent:
        raw = rng.number()
        kind = rng.choice(
            ("text/html", "image/png", "application/x-www-form-urlencoded", "?", "x" * 1024)
        )
        headers = {"content-type": kind}
        return Sent("a reading, mislabelled", body(str(raw)), None, headers=headers, says=raw)

    def compressed() -> Sent:
        raw = rng.number()
        name, packed, reason = rng.choice(
            (
                ("gzip", gzip.compress, None),
                ("deflate", zlib.compress, None),
                ("gzip, deflate", lambda plain: zlib.compress(gzip.compress(plain)), None),
                ("br", bytes, "unknown_encoding"),
                ("gzip, gzip", gzip.compress, "not_gzip"),
                ("deflate", lambda plain: zlib.compress(plain)[:-1], "not_deflate"),
            )
        )
        headers = {"content-encoding": name}
        whole = packed(body(str(raw)))
        return Sent("a reading, compressed", whole, reason, headers=headers, says=raw)

    def far_number() -> Sent:
        text = rng.choice(
            (
                *("9223372036854775807", "9223372036854775808", "18446744073709551615"),
                *("18446744073709551616", "-9223372036854775808", "-9223372036854775809"),
                *("1e308", "-1e308", "5e-324", "1e-999", "-0", "-0.0", "9" * 300),
            )
        )
        whole = text.lstrip("-").isdigit() and -(2**63) <= int(text) < 2**64
        return Sent(
            "a number at the edge", body(text), None, says=int(text) if whole else float(text)
        )

    def far_number_beside() -> Sent:
        number = rng.choice(("18446744073709551616", "1e308", "9" * 300, "-9223372036854775809"))
        return Sent("such a number beside", body("1", f'"other": {number}'), None, says=1)

    def wrong_type() -> Sent:
        value = rng.choice(("true", "false", "null", '"21.5"', "[1]", "[]", '{"value": 1}', "{}"))
        return Sent("no number", body(value), "wrong_type")

    def no_field() -> Sent:
        other = {f"r{rng.text()}": rng.json_value() for _ in range(rng.randrange(4))}
        return Sent("no value", json.dumps(other).encode(), "field_missing")

    def repeated_name() -> Sent:
        first, last = rng.sample(('"x"', "1", "null", "2.5", "[]"), 2)
        text = f'{{"{field}": {first}, "{field}": {last}}}'.encode()
        if last in ("1", "2.5"):
            return Sent("a name twice", text, None, says=float(last))
        return Sent("a name twice", text, "wrong_type")

    def good_time() -> Sent:
        at = rng.choice(GOOD_TIMES)
        return Sent(f"at {at}", body("1", f'"at": "{at}"'), None, says=1)

    def bad_time() -> Sent:
        at = rng.choice(BAD_TIMES)
        return Sent(f"at {at}", body("1", f'"at": "{at}"'), "bad_time")

    def time_of_no_text() -> Sent:
        at = rng.choice(NO_TEXTS)
        return Sent("a time that is no text", body("1", f'"at": {at}'), "wrong_type")

    def harmless_escapes() -> Sent:
        note = rng.choice((r"\\u0000", r"\ud83d\ude00", r"\u007f\u0001", r"\\\\u0000", "\u2028"))
        return Sent("harmless escapes", body("1", f'"note": "{note}"'), None, says=1)

    def deep() -> Sent:
        depth = rng.choice((100, 240, 260, 1000))
        nested = '{"a":' * depth + "1" + "}" * depth
        # an event that nests deeper than 254 cannot be written down
        reason = None if depth < 250 else "not_writable"
        return Sent(f"{depth} deep", body("1", f'"deep": {nested}'), reason, says=1)

    def changed_at_random() -> Sent:
        whole = body(str(rng.randint(1, 99)), f'"r": {json.dumps(rng.json_value())}')
        return _judged("changed at random", _changed(whole, rng), judge)

    def cut_off() -> Sent:
        whole = body(str(rng.randint(10, 99)), '"note": "' + "a" * rng.randrange(50) + '"')
        return _judged("cut off", whole[: rng.randrange(1, len(whole))], judge)

    def judge(found: dict[str, Any]) -> Any:
        if field not in found:
            raise NotTaken("field_missing")
        value = found[field]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise NotTaken("wrong_type")
        return value

    kinds = (plain, mislabelled, compressed, far_number, far_number_beside, wrong_type, no_field)
    kinds += (repeated_name, good_time, bad_time, time_of_no_text, harmless_escapes, deep)
    return [*kinds, changed_at_random, cut_off]


def _statuses(rng: Randomness) -> list[Callable[[], Sent]]:
    """Objects for the endpoint `status`."""

    def body(status: str, *more: str) -> bytes:
        return ("{" + ", ".join((f'"status": {status}', *more)) + "}").encode()

    def plain() -> Sent:
        status = rng.choice(("online", "offline"))
        rest = {f"r{rng.text()}": rng.json_value() for _ in range(rng.randrange(4))}
        whole = json.dumps({**rest, "status": status}).encode()
        return Sent("a status", whole, None, chunked=rng.random() < 0.3, says=status)

    def another_word() -> Sent:
        other = ('"Online"', '"online "', '""', "true", "null", "1", '["online"]', '{"online": 1}')
        return Sent("no known status", body(rng.choice(other)), "bad_value")

    def no_status() -> Sent:
        other = {f"r{rng.text()}": rng.json_value() for _ in range(rng.randrange(4))}
        return Sent("no status", json.dumps(other).encode(), "field_missing")

    def repeated_name() -> Sent:
        first, last = rng.sample(('"online"', '"offline"', "null", "[]"), 2)
        text = f'{{"status": {first}, "status": {last}}}'.encode()
        if last.startswith('"'):
            return Sent("a name twice", text, None, says=json.loads(last))
        return Sent("a name twice", text, "bad_value")

    def escaped() -> Sent:
        return Sent("escaped", rb'{"\u0073tatus": "\u006fnline"}', None, says="online")

    def good_time() -> Sent:
        at = rng.choice(GOOD_TIMES)
        return Sent(f"at {at}", body('"online"', f'"at": "{at}"'), None, says="online")

    def bad_time() -> Sent:
        at = rng.choice(BAD_TIMES)
        return Sent(f"at {at}", body('"online"', f'"at": "{at}"'), "bad_time")

    def time_of_no_text() -> Sent:
        at = rng.choice(NO_TEXTS)
        return Sent("a time that is no text", body('"online"', f'"at": {at}'), "wrong_type")

    def deep() -> Sent:
        depth = rng.choice((100, 260, 1000))
        nested = '{"a":' * depth + "1" + "}" * depth
        whole = body('"offline"', f'"deep": {nested}')
        return Sent(f"{depth} deep", whole, None, says="offline")

    def changed_at_random() -> Sent:
        whole = body('"offline"', f'"r": {json.dumps(rng.json_value())}')
        return _judged("changed at random", _changed(whole, rng), judge)

    def judge(found: dict[str, Any]) -> Any:
        if "status" not in found:
            raise NotTaken("field_missing")
        if found["status"] not in ("online", "offline"):
            raise NotTaken("bad_value")
        return found["status"]

    kinds = (plain, another_word, no_status, repeated_name, escaped, good_time, bad_time)
    return [*kinds, time_of_no_text, deep, changed_at_random]


def _changed(body: bytes, rng: Randomness) -> bytes:
    changed = bytearray(body)
    for _ in range(rng.randint(1, 3)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _judged(kind: str, body: bytes, judge: Callable[[dict[str, Any]], Any]) -> Sent:
    try:
        return Sent(kind, body, None, says=judge(parse(body)))
    except NotTaken as why:
        return Sent(kind, body, why.args[0])
