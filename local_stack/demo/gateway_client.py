"""The gateway as a device sees it. The one place of the local stack that uses an HTTP client."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import httpx

from local_stack.demo.fleet import DeviceMessage
from local_stack.run.health import THIS_MACHINE

_TIMEOUT_S = 30.0
CONNECTIONS_MAX = 64


class PostAnswer(NamedTuple):
    status: int  # 0: none came
    id: str | None = None
    said: str = ""

    @property
    def accepted(self) -> bool:
        return self.status == 202


# a connection that rests as long as the gateway lets it (HEADRACE_KEEP_ALIVE_S) may be closed while
# the next request is on its way, which then has no answer
_REST_S = 2.0


# a stream that shows nothing says every 15 s that it is there (HEADRACE_EVENT_HEARTBEAT_S)
_QUIET_S = 60.0
_COME_AGAIN_S = 1.0
EVENTS = "/v1/events"


class DeviceState(NamedTuple):
    version: int  # so many events were folded
    state: dict[str, Any]


NO_STATE = DeviceState(0, {})


class Gateway:
    def __init__(self, url: str, token: str | None = None) -> None:
        # straight to the stack, whatever proxy the environment names
        self._http = httpx.AsyncClient(
            base_url=url,
            headers=_credential(token),
            timeout=_TIMEOUT_S,
            trust_env=False,
            verify=THIS_MACHINE,
            limits=httpx.Limits(max_connections=CONNECTIONS_MAX, keepalive_expiry=_REST_S),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def post(self, message: DeviceMessage) -> PostAnswer:
        headers = {"Idempotency-Key": message.key, "content-type": "application/json"}
        path = f"/v1/{message.endpoint}/{message.device}"
        try:
            response = await self._http.post(path, content=message.body, headers=headers)
        except httpx.HTTPError as error:
            return PostAnswer(0, said=f"no answer ({type(error).__name__})")
        said = _object(response)
        if response.status_code == 202:
            return PostAnswer(202, str(said.get("id")))
        code = said.get("code", response.reason_phrase)
        return PostAnswer(response.status_code, said=f"{response.status_code} {code}")

    async def has_endpoint(self, name: str) -> bool | None:
        """None if nobody answers. A GET writes nothing: it is no method of an endpoint."""
        try:
            response = await self._http.get(f"/v1/{name}/device-0001")
        except httpx.HTTPError:
            return None
        return response.status_code == 405

    async def snapshot(self, device: str) -> DeviceState:
        try:
            response = await self._http.get(f"/state/device/{device}")
        except httpx.HTTPError:
            return NO_STATE
        said = _object(response)
        return DeviceState(said["version"], said["state"]) if "state" in said else NO_STATE

    async def events(self, event_type: str, opened: asyncio.Event) -> AsyncIterator[dict[str, Any]]:
        """As they come, without an end: what ends goes on behind the last one. `opened`: what comes
        from then on is shown."""
        last_id = ""
        message: dict[str, str] = {}
        while True:
            headers = {"last-event-id": last_id} if last_id else {}
            asked = self._http.stream(
                "GET", EVENTS, params={"type": event_type}, headers=headers, timeout=_QUIET_S
            )
            try:
                async with asked as answer:
                    answer.raise_for_status()
                    opened.set()
                    async for line in answer.aiter_lines():
                        if line:
                            name, _, value = line.partition(": ")
                            message[name] = value
                            continue
                        if "data" in message and "event" not in message:  # it is no last word
                            yield json.loads(message["data"])
                        last_id = message.get("id", last_id)
                        message = {}
            except httpx.HTTPError:
                message = {}
            await asyncio.sleep(_COME_AGAIN_S)


@contextmanager
def event_bytes(
    url: str, token: str | None, event_type: str, last_id: str | None
) -> Iterator[tuple[int, str, Iterator[bytes]]]:
    """Status, media type and bytes of an event stream, as they come. For a thread."""
    headers = _credential(token) | ({"last-event-id": last_id} if last_id else {})
    with (
        httpx.Client(trust_env=False, verify=THIS_MACHINE, timeout=_QUIET_S) as http,
        http.stream("GET", f"{url}{EVENTS}", params={"type": event_type}, headers=headers) as said,
    ):
        yield said.status_code, said.headers.get("content-type", ""), said.iter_raw()


def _credential(token: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"} if token else {}


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        said = response.json()
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
