"""The gateway as a device sees it. The one place of the local stack that uses an HTTP client."""

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


class DeviceState(NamedTuple):
    version: int  # so many events were folded
    state: dict[str, Any]


NO_STATE = DeviceState(0, {})


class Gateway:
    def __init__(self, url: str, token: str | None = None) -> None:
        # straight to the stack, whatever proxy the environment names
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"authorization": f"Bearer {token}"} if token else {},
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


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        said = response.json()
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
