"""Posts the result of what an event has ignited back to the gateway. Needs httpx:
`pip install "headrace-consumer[answer]"`."""

import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import httpx

from .events import Event

_TIMEOUT_S = 30.0
_PAUSE_S, _PAUSE_MAX_S = 0.5, 15.0
_KEY_CHARACTERS_MAX = 255
_ACCEPTED = 202
# all others are about what was sent, and would be the same again
_PASSING = (408, 429, 500, 502, 503, 504)


class NotAnswered(Exception):  # noqa: N818 - it is what became of the answer
    """The gateway has not accepted it. `is_final`: it would refuse it again."""

    def __init__(self, detail: str, *, is_final: bool) -> None:
        super().__init__(detail)
        self.is_final = is_final


def answer(
    gateway: str,
    endpoint: str,
    event: Event[Any],
    result: Mapping[str, Any],
    *,
    named: str = "asked",
    entity_id: str | None = None,
    token: str | None = None,
    within_s: float = 60.0,
    client: httpx.Client | None = None,
) -> str:
    """Posts `result`, with the event's id in the field that is `named`, to an endpoint, for the
    event's entity or another one. Returns the id of the receipt. Of a completion, the id is that of
    the event that it completes.

    What the gateway cannot do now is tried again for `within_s`. All tries, also those of a handler
    that is given the same event again, have one Idempotency-Key, so they have one effect: also
    where an answer was lost, and nobody knows whether the one before was taken.
    """
    tenant, _, own = (entity_id or event.entity_id).rpartition("/")
    if tenant and tenant != event.entity_id.rpartition("/")[0]:
        raise ValueError(f"{entity_id!r} is of another tenant than the event")
    url = f"{gateway.rstrip('/')}/v1/{endpoint}/{quote(own, safe=':@')}"
    headers = {"Idempotency-Key": _key(endpoint, event)}
    if token:
        headers["authorization"] = f"Bearer {token}"
    body = {**result, named: event.about or event.id}
    http = client or httpx.Client(timeout=_TIMEOUT_S)
    try:
        return _post(http, url, body, headers, within_s)
    finally:
        if client is None:
            http.close()


def _key(endpoint: str, event: Event[Any]) -> str:
    """Another one for a correction: its result may differ."""
    key = f"answer:{endpoint}:{event.revision}:{quote(event.id, safe='')}"
    if len(key) > _KEY_CHARACTERS_MAX:
        return f"answer:{sha256(key.encode()).hexdigest()}"
    return key


def _post(
    http: httpx.Client, url: str, body: Any, headers: Mapping[str, str], within_s: float
) -> str:
    end_s, pause_s = time.monotonic() + within_s, _PAUSE_S
    while True:
        after_s = 0.0
        try:
            response = http.post(url, json=body, headers=headers)
        except httpx.TransportError as error:
            told = f"no answer ({type(error).__name__})"
        else:
            said = _object(response)
            if response.status_code == _ACCEPTED:
                return str(said.get("id"))
            told = f"{response.status_code} {said.get('code', '')}: {said.get('detail', '')}"
            if response.status_code not in _PASSING:
                raise NotAnswered(f"{url} refuses it: {told}", is_final=True)
            after_s = _seconds(response.headers.get("retry-after"))
        wait_s = max(pause_s, after_s)
        if time.monotonic() + wait_s > end_s:
            raise NotAnswered(
                f"{url} has not taken it within {within_s:g} s: {told}", is_final=False
            )
        time.sleep(wait_s)
        pause_s = min(2 * pause_s, _PAUSE_MAX_S)


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        said = response.json()
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _seconds(told: str | None) -> float:
    return float(told) if told and told.isdecimal() else 0.0
