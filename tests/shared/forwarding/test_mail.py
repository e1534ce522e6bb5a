"""The mail of an event, and of several."""

from typing import Any

import pytest

from shared.events.envelope import event_headers, event_value
from shared.forwarding.cloud_event import CloudEvent
from shared.forwarding.hook import Hook, new_hook
from shared.forwarding.mail import mail, why_not_address
from shared.forwarding.mail_access import mail_access
from tests.builders import event_record

NOW_MS = 1_790_000_000_000


def a_hook(**fields: Any) -> Hook:
    return new_hook(**{"name": "ops", "url": "mailto:ops@example.org", "made_ms": 1, **fields})


def an_event(offset: int = 0, **changes: Any) -> CloudEvent:
    one = event_record(offset, **changes)
    return CloudEvent(one.entity_id.encode(), event_value(one), event_headers(one))


def test_it_has_the_event_for_people() -> None:
    made = mail(a_hook(), [an_event(value=31.5)], "headrace@example.org", NOW_MS)
    assert made["To"] == "ops@example.org"
    assert made["Subject"] == "[ops] reading of device-0001"
    lines = made.get_content().splitlines()
    assert lines[0].endswith("reading of device-0001")
    assert lines[1:3] == ["  value  31.5", "  area   area-01"]


def test_it_has_the_fields_that_are_asked_for_alone() -> None:
    made = mail(a_hook(fields=["area"]), [an_event()], "headrace@example.org", NOW_MS)
    assert "value" not in made.get_content()


def test_several_are_one_mail_that_says_how_many() -> None:
    events = [an_event(number, entity_id=f"device-{number:04}") for number in range(3)]
    made = mail(a_hook(batch=100), events, "headrace@example.org", NOW_MS)
    assert made["Subject"] == "[ops] 3 events (reading) of 3 entities"
    assert all(f"device-{number:04}" in made.get_content() for number in range(3))


def test_the_same_events_have_the_same_message_id_at_each_try() -> None:
    def name(*events: CloudEvent, hook: str = "ops", at_ms: int = NOW_MS) -> str:
        made = mail(a_hook(name=hook), events, "headrace@example.org", at_ms)
        return str(made["Message-ID"])

    first = name(an_event(1))
    assert first == name(an_event(1), at_ms=NOW_MS + 60_000)
    assert len({first, name(an_event(2)), name(an_event(1), an_event(2))}) == 3
    assert first != name(an_event(1), hook="others")


def test_nothing_of_an_event_makes_a_header_or_a_line() -> None:
    event = an_event(entity_id="a\r\nBcc: all@example.org", data={"area": "x\r\n\r\nforged"})
    made = mail(a_hook(), [event], "headrace@example.org", NOW_MS)
    assert made["Bcc"] is None
    assert "\nforged" not in made.get_content()


def test_it_goes_as_plain_ascii_whatever_is_in_it() -> None:
    event = an_event(data={"area": "Straße ☃ " * 200})
    raw = mail(a_hook(), [event], "headrace@example.org", NOW_MS).as_bytes()
    assert raw.isascii()
    assert max(map(len, raw.splitlines())) <= 78


@pytest.mark.parametrize(
    "address", ["", "ops", "ops@", "a@b.org,c@d.org", "a@b.org?cc=c@d.org", "a b@c.org", "a@b\r\n"]
)
def test_what_is_not_one_address_is_refused(address: str) -> None:
    assert "one address" in (why_not_address(address) or "")


def test_an_address_is_taken() -> None:
    assert why_not_address("ops+alarms@mail.example.org") is None


@pytest.mark.parametrize(
    ("url", "password", "said"),
    [
        ("https://example.org", "", "names no mail server"),
        ("smtp://", "", "names no mail server"),
        ("smtps://ops:secret@example.org", "", "has a password"),
        ("smtps://ops@example.org/box", "x", "more than a user"),
        ("smtp+plain://ops@example.org", "x", "unencrypted"),
        ("smtps://ops@example.org", "", "go together"),
        ("smtps://example.org", "x", "go together"),
    ],
)
def test_what_is_no_mail_server_is_refused(url: str, password: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        mail_access(url, password, "headrace@example.org")


def test_a_mail_server_has_the_usual_port_of_its_security() -> None:
    access = mail_access("smtps://ops%40example.org@mail.example.org", "geheim", "a@example.org")
    assert (access.port, access.user, access.security) == (465, "ops@example.org", "smtps")
    assert "geheim" not in repr(access)
    assert mail_access("smtp://mail.example.org", "", "a@example.org").port == 587
