"""What a hook gets that is an address of mail: a mail of an event, or of several. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from hashlib import sha256
from typing import Any

import orjson

from shared.forwarding.cloud_event import CloudEvent, message_id
from shared.forwarding.hook import Hook
from shared.forwarding.mail_access import ADDRESS

_SUBJECT_MAX = 120


def why_not_address(address: str) -> str | None:
    if ADDRESS.fullmatch(address):
        return None
    return "a mail goes to one address, mailto:ops@example.org: add a hook for each one"


def mail(hook: Hook, events: Sequence[CloudEvent], sender: str, now_ms: int) -> EmailMessage:
    """A mail of these events: the same events always have the same Message-ID."""
    found = EmailMessage(SMTP)
    found["From"] = sender
    found["To"] = hook.mail_address
    found["Subject"] = _subject(hook, events)
    found["Date"] = format_datetime(datetime.fromtimestamp(now_ms / 1000, UTC))
    found["Message-ID"] = f"<{_name(hook, events)}@headrace>"
    found["Auto-Submitted"] = "auto-generated"  # nobody's absence note answers it
    texts = [_text(hook, event) for event in events]
    text = "\n\n".join([*texts, f"-- \nHeadrace, hook {hook.name}\n"])
    found.set_content(text, cte="quoted-printable")
    return found


def _name(hook: Hook, events: Sequence[CloudEvent]) -> str:
    return sha256(f"{hook.name}\n{message_id(events)}".encode()).hexdigest()[:40]


def _subject(hook: Hook, events: Sequence[CloudEvent]) -> str:
    types = ", ".join(dict.fromkeys(event.type for event in events))
    what = f"{types} of {events[0].entity}"
    if len(events) > 1:
        entities = {event.entity for event in events}
        of = events[0].entity if len(entities) == 1 else f"{len(entities)} entities"
        what = f"{len(events)} events ({types}) of {of}"
    return _line(f"[{hook.name}] {what}")[:_SUBJECT_MAX]


def _text(hook: Hook, event: CloudEvent) -> str:
    data = event.data_of(hook.fields)
    width = max(map(len, data), default=0)
    head = f"{event.attributes.get('time', '')}  {event.type} of {event.entity}".strip()
    fields = [f"  {name:<{width}}  {_value(value)}" for name, value in data.items()]
    return "\n".join(_line(one) for one in (head, *fields, f"  (event {event.id})"))


def _value(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _line(text: str) -> str:
    """No sign of it ends a line, or a header."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
