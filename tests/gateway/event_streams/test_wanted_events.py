from typing import Any

import pytest

from gateway.auth.caller import ANYONE, Caller
from gateway.event_streams.wanted_events import ENTITIES_MAX, Start, Wanted, asked_by
from gateway.http.message import Request
from gateway.http.problems import Problem
from shared.flow import FLOW

DEVICE = Caller("device", "acme", "device-0001")


def asked(query: str, caller: Caller = ANYONE, last_id: bytes = b"") -> tuple[Wanted, Start]:
    by_name = {b"last-event-id": last_id} if last_id else {}
    target = f"/v1/events?{query}".encode()
    return asked_by(Request("GET", target, [], by_name, "127.0.0.1"), caller, FLOW)


def refusal(query: str, caller: Caller = ANYONE) -> tuple[int, str]:
    with pytest.raises(Problem) as raised:
        asked(query, caller)
    return raised.value.status, raised.value.code


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", Wanted(b"")),
        ("type=reading&type=retired", Wanted(b"", frozenset({"reading", "retired"}))),
        ("entity=a&entity=b%40c", Wanted(b"", None, frozenset({b"a", b"b@c"}))),
        ("tenant=acme", Wanted(b"acme")),
        ("tenant=acme&entity=a", Wanted(b"acme", None, frozenset({b"acme/a"}))),
        ("tenant=", Wanted(b"")),
    ],
)
def test_the_query_says_what_is_shown(query: str, wanted: Wanted) -> None:
    assert asked(query)[0] == wanted


@pytest.mark.parametrize(
    ("caller", "query", "wanted"),
    [
        (DEVICE, "", Wanted(b"acme", None, frozenset({b"acme/device-0001"}))),
        (DEVICE, "entity=device-0001", Wanted(b"acme", None, frozenset({b"acme/device-0001"}))),
        (Caller("gateway", "acme"), "", Wanted(b"acme")),
        (Caller("operator", "acme"), "tenant=acme", Wanted(b"acme")),
        (Caller("operator"), "", Wanted(b"")),
        (Caller("operator", all_tenants=True), "tenant=beta", Wanted(b"beta")),
    ],
)
def test_a_caller_is_shown_what_is_its_own(caller: Caller, query: str, wanted: Wanted) -> None:
    assert asked(query, caller)[0] == wanted


@pytest.mark.parametrize(
    ("caller", "query", "code"),
    [
        (DEVICE, "entity=device-0002", "not_your_id"),
        (DEVICE, "entity=device-0001&entity=device-0002", "not_your_id"),
        (DEVICE, "tenant=beta", "not_your_tenant"),
        (DEVICE, "tenant=", "not_your_tenant"),
        (Caller("gateway", "acme"), "tenant=beta&entity=a", "not_your_tenant"),
        (Caller("operator"), "tenant=acme", "not_your_tenant"),
    ],
)
def test_what_is_another_s_is_refused(caller: Caller, query: str, code: str) -> None:
    assert refusal(query, caller) == (403, code)


def test_a_key_of_another_tenant_is_never_taken() -> None:
    for wanted in (Wanted(b"acme"), Wanted(b"acme", None, frozenset({b"acme/a", b"beta/a"}))):
        assert wanted.takes_key(b"acme/a")
        for key in (b"beta/a", b"a", b"acme", b"acme2/a", b"/a"):
            assert not wanted.takes_key(key)
    assert not Wanted(b"").takes_key(b"acme/a")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("types=reading", "unknown_parameter"),
        ("type=", "unknown_type"),
        ("type=reading&type=nothing", "unknown_type"),
        ("entity=a%2Fb", "bad_entity_id"),
        ("entity=", "bad_entity_id"),
        ("tenant=a&tenant=b", "repeated_parameter"),
        ("from=somewhere", "bad_start"),
        ("since=2026-11-26T08:00:00", "bad_time"),
        ("since=", "bad_time"),
        ("&".join(f"entity=e{n}" for n in range(ENTITIES_MAX + 1)), "too_many_entities"),
    ],
)
def test_what_cannot_be_read_is_refused(query: str, code: str) -> None:
    assert refusal(query) == (400, code)


@pytest.mark.parametrize(
    ("query", "last_id", "start"),
    [
        ("", b"", Start()),
        ("from=now", b"", Start()),
        ("from=earliest", b"", Start(is_earliest=True)),
        ("since=1970-01-01T00:00:01Z", b"", Start(since_ms=1000)),
        ("since=1970-01-01T01:00:01%2B01:00", b"", Start(since_ms=1000)),
        ("since=1950-01-01T00:00:00Z", b"", Start(since_ms=0)),
        ("after=abc", b"", Start("abc")),
        # a browser comes again with the same URL, and says in the header where it was
        ("after=abc", b"def", Start("def")),
        ("from=earliest", b"def", Start("def")),
    ],
)
def test_where_a_stream_begins(query: str, last_id: bytes, start: Start) -> None:
    assert asked(query, last_id=last_id)[1] == start


def test_types_of_one_stream_are_read_from_one_topic() -> None:
    wanted, _ = asked("type=reading&type=retired")
    assert wanted.topics(FLOW) == {"event.reading.v1", "event.retired.v1"}
    all_: Any = asked("")[0].topics(FLOW)
    assert all_ is None
