"""Payloads that break their contract and are let pass: counted on a topic, by which a report tells
what `enforce` would have refused. Pure."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from clients.kafka.records import Outgoing, Payload
from shared.contract import Breach
from shared.events import envelope
from shared.model import Endpoint
from shared.topic_names import breach_topic
from stream_jobs.waiting.protocol import ENRICH

_TOPIC = breach_topic(ENRICH)
_FIRMWARE = "firmware"  # the field of a payload that says it, if any does
_TOLD_CHARS_MAX = 1000


class LetPass(NamedTuple):
    breach: Breach
    firmware: str | None  # that the payload names


def let_pass(breach: Breach, sent: Any) -> LetPass:
    firmware = sent.get(_FIRMWARE) if isinstance(sent, dict) else None
    return LetPass(breach, _text(firmware) if isinstance(firmware, str | int) else None)


def noted(
    passed: LetPass, endpoint: Endpoint, payload: Payload, made: Sequence[Outgoing]
) -> Sequence[Outgoing]:
    """With what was made of it: a repeat says the same again, under the same id."""
    breach = passed.breach
    if endpoint.contract_mode == "warn":
        mark = f"{breach.code}: {breach.place}"[:_TOLD_CHARS_MAX].encode(errors="backslashreplace")
        # copies of an event on further topics have its headers, the very same
        made = [one._replace(headers=[*one.headers, (envelope.BREACH, mark)]) for one in made]
    told = {
        "endpoint": endpoint.name,
        "mode": endpoint.contract_mode,
        "code": breach.code,
        "place": _text(breach.place),
        "detail": _text(breach.detail),
    }
    if passed.firmware is not None:
        told[_FIRMWARE] = passed.firmware
    origin = str(payload.position).encode()
    event_id = envelope.find(payload.headers, envelope.ID) or origin
    headers = [(envelope.ID, event_id), (envelope.ORIGIN, origin)]
    return [*made, Outgoing(_TOPIC, payload.key, orjson.dumps(told), headers)]


def _text(said: object) -> str:
    """A sender's text may be any, and of any length."""
    return str(said)[:_TOLD_CHARS_MAX].encode(errors="backslashreplace").decode()
