"""Hooks as they are written and read; which events they get, and in which shape."""

from typing import Any

import orjson
import pytest

from shared.events.envelope import event_headers, event_value
from shared.forwarding.cloud_event import CloudEvent, is_for, request
from shared.forwarding.conditions import condition
from shared.forwarding.hook import (
    Hook,
    Hooks,
    Status,
    new_hook,
    owner_of,
    read_hook,
    record,
    status_key,
    status_record,
)
from tests.builders import event_record

NOW_MS = 1_700_000_000_000


def a_hook(**fields: Any) -> Hook:
    return new_hook(**{"name": "alarms", "url": "https://example.org/in", "made_ms": 1, **fields})


def an_event(**changes: Any) -> CloudEvent:
    one = event_record(**changes)
    return CloudEvent(one.entity_id.encode(), event_value(one), event_headers(one))


def a_completion(kind: str = "reading") -> CloudEvent:
    headers = [("ce_id", b"c-1"), ("ce_type", f"completion.{kind}".encode())]
    return CloudEvent(b"device-0001", b'{"event_id": "event-0"}', headers)


def test_a_hook_is_read_as_it_was_written() -> None:
    hook = a_hook(types=["reading"], where=["value > 30"], per_s=5)
    assert read_hook(record(hook)) == hook


def test_a_name_says_which_tenant_it_is_of() -> None:
    assert a_hook(name="acme:alarms", tenant="acme").is_of_a_tenant
    assert (owner_of("acme:alarms"), owner_of("alarms")) == ("acme", "")
    assert not a_hook(tenant="acme").is_of_a_tenant


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "Alarms"}, "name: a hook's name has"),
        ({"where": ["value >"]}, "is no condition"),
        ({"where": ["value > north"]}, "no value of JSON"),
        ({"where": ["value > true"]}, "is neither"),
        ({"entities": ["a b"]}, "an entity id has"),
        ({"tenant": "A"}, "tenant: a tenant has"),
        ({"name": "acme:Alarms"}, "name: a hook's name has"),
        ({"name": ":alarms"}, "name: a hook's name has"),
        ({"name": "acme:alarms"}, "a webhook of acme gets what is of acme alone"),
        ({"name": "acme:alarms", "tenant": "beta"}, "a webhook of acme gets what is of acme alone"),
        ({"name": "acme:a", "tenant": "acme", "url": "mailto:a@b.org"}, "no tenant may have"),
        ({"timeout_s": 60}, "timeout_s"),
        ({"shape": "xml"}, "shape"),
        ({"retries": {"factor": 0}}, "retries.factor"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        a_hook(**fields)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("value > 30", True),
        ("value >= 31.5", True),
        ("value < 30", False),
        ("value = 31.5", True),
        ("value != 31.5", False),
        ('area = "north"', True),
        ('area > "m"', True),
        ("area > 3", False),
        ("site.floor = 2", True),
        ("site.room = 2", False),
        ("site.room != 2", True),
        ("alarm = true", True),
        ("alarm = 1", False),
        ("alarm > 0", False),
        ("gone = null", True),
    ],
)
def test_a_condition_compares_like_with_like(text: str, holds: bool) -> None:
    data = {"value": 31.5, "area": "north", "site": {"floor": 2}, "alarm": True, "gone": None}
    assert condition(text).holds(data) is holds


@pytest.mark.parametrize(
    ("fields", "event", "is_its"),
    [
        ({}, an_event(), True),
        ({"types": ["reading"]}, an_event(), True),
        ({"types": ["status_changed"]}, an_event(), False),
        ({"entities": ["device-0001"]}, an_event(), True),
        ({"entities": ["device-0001"]}, an_event(entity_id="acme/device-0001"), True),
        ({"entities": ["device-0002"]}, an_event(), False),
        ({"tenant": "acme"}, an_event(entity_id="acme/device-0001"), True),
        ({"tenant": "acme"}, an_event(), False),
        ({"tenant": ""}, an_event(entity_id="acme/device-0001"), False),
        ({"where": ["value > 30"]}, an_event(value=31), True),
        ({"where": ["value > 30", 'area = "x"']}, an_event(value=31), False),
        ({}, a_completion(), False),
        ({"of": "completions"}, a_completion(), True),
        ({"of": "completions", "types": ["reading"]}, a_completion(), True),
        ({"of": "completions"}, an_event(), False),
    ],
)
def test_a_hook_gets_what_it_asks_for(
    fields: dict[str, Any], event: CloudEvent, is_its: bool
) -> None:
    assert is_for(a_hook(**fields), event) is is_its


def test_a_structured_request_is_a_cloud_event_of_its_own() -> None:
    headers, body = request(a_hook(), [an_event()])
    assert headers["content-type"] == "application/cloudevents+json"
    assert orjson.loads(body) == {
        "specversion": "1.0",
        "id": "event-0",
        "type": "reading",
        "source": "/ingest.telemetry.v1",
        "subject": "device-0001",
        "time": "2023-11-14T22:13:20.000Z",
        "datacontenttype": "application/json",
        "data": {"value": 21.5, "area": "area-01"},
    }


def test_a_binary_request_has_the_data_alone_as_its_body_and_the_chosen_fields_of_it() -> None:
    headers, body = request(a_hook(shape="binary", fields=["value", "no.such"]), [an_event()])
    assert orjson.loads(body) == {"value": 21.5}
    assert headers["ce-id"] == "event-0"
    assert headers["ce-type"] == "reading"
    assert all(value.isascii() and value.isprintable() for value in headers.values())


def test_no_header_can_be_smuggled_in_by_an_event() -> None:
    event = CloudEvent(b"d", b"{}", [("ce_id", "a\r\nx: y\u00e9".encode()), ("ce_type", b"t")])
    headers, _ = request(a_hook(shape="binary"), [event])
    assert headers["ce-id"] == "a%0D%0Ax: y%C3%A9"


def test_the_job_s_word_counts_for_the_revision_that_it_was_said_of() -> None:
    hooks, hook = Hooks(), a_hook()
    hooks.hear(b"alarms", record(hook))
    assert hooks.sends(hook)
    said = Status(state="paused", why="status 500", at_ms=NOW_MS, revision=hook.revision)
    hooks.hear(status_key("alarms"), status_record(said))
    assert not hooks.sends(hook) and hooks.takes(hook)
    again = hook.changed(paused=False)
    hooks.hear(b"alarms", record(again))
    assert hooks.sends(again)
    hooks.hear(b"alarms", None)
    assert not hooks.all()


def test_a_record_that_is_no_hook_is_told_and_gets_nothing() -> None:
    hooks = Hooks()
    hooks.hear(b"odd", b'{"name": "odd"}')
    assert "url" in hooks.wrong["odd"]
    assert not hooks.all()


def test_while_a_secret_is_changed_the_old_one_holds_for_a_day() -> None:
    hook = a_hook().with_secret("one", NOW_MS)
    both = hook.with_secret("two", NOW_MS + 5)
    assert [(one.sealed, one.until_ms) for one in both.secrets] == [
        ("two", None),
        ("one", NOW_MS + 5 + 86_400_000),
    ]
    later = both.with_secret("three", NOW_MS + 90_000_000)
    assert [one.sealed for one in later.secrets] == ["three", "two"]
