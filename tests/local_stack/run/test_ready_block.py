import shlex
import shutil

import orjson
import pytest

from local_stack.run.ready_block import try_it
from shared.flow import FLOW
from shared.flow_table import Flow
from shared.model import Endpoint, EventType, Example

URL = "http://127.0.0.1:8080"
PAYLOAD = {"gate": "B'44", "note": 'the "new" one'}


def _flow(example: Example | None) -> Flow:
    gate = Endpoint("gate", FLOW.endpoints[0].enrich, emits=("gate",), example=example)
    return Flow((gate,), (EventType("gate"),), ())


def _arguments(flow: Flow, monkeypatch: pytest.MonkeyPatch, *, curl: bool) -> list[list[str]]:
    """As a shell would take the lines apart."""
    monkeypatch.setattr(shutil, "which", lambda _: "curl" if curl else None)
    return [shlex.split(line) for line in try_it(URL, flow)]


def test_the_lines_to_try_are_the_flows_own_example(monkeypatch: pytest.MonkeyPatch) -> None:
    post, state = _arguments(FLOW, monkeypatch, curl=True)
    assert f"{URL}/v1/telemetry/device-0001" in post
    assert orjson.loads(post[-1]) == {"value": 21.5}
    assert state == ["curl", f"{URL}/state/device-0001"]


def test_without_an_entity_there_is_no_state_to_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    (post,) = _arguments(_flow(None), monkeypatch, curl=True)
    assert f"{URL}/v1/gate/gate-0001" in post


@pytest.mark.parametrize("curl", [True, False])
def test_where_the_gateway_asks_who_it_is_the_lines_say_so(
    monkeypatch: pytest.MonkeyPatch, curl: bool
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "curl" if curl else None)
    first, *asked = try_it(URL, FLOW, asks_who=True)
    assert "./headrace credentials add --device device-0001" in first
    assert len(asked) == 2
    assert all("TOKEN" in line for line in asked)


@pytest.mark.parametrize("curl", [True, False])
def test_a_payload_passes_the_shell_as_it_is(monkeypatch: pytest.MonkeyPatch, curl: bool) -> None:
    (line,) = _arguments(_flow(Example("LH400", PAYLOAD)), monkeypatch, curl=curl)
    if curl:
        assert orjson.loads(line[-1]) == PAYLOAD
    else:
        posted = {}
        code = line[-1].replace("import httpx, os; ", "")
        exec(code, {"httpx": _Httpx(posted), "print": lambda _: None})
        assert orjson.loads(posted[f"{URL}/v1/gate/LH400"]) == PAYLOAD


class _Httpx:
    def __init__(self, posted: dict[str, str]) -> None:
        self.text = ""
        self._posted = posted

    def post(self, url: str, content: str) -> "_Httpx":
        self._posted[url] = content
        return self


@pytest.mark.parametrize(("curl", "passes"), [(True, " -k "), (False, "verify=False")])
def test_the_certificate_of_a_gateway_for_devices_is_not_held_to_this_machine_s_name(
    monkeypatch: pytest.MonkeyPatch, curl: bool, passes: str
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "curl" if curl else None)
    assert all(passes in line for line in try_it(URL.replace("http", "https"), FLOW))
    assert not any(passes in line for line in try_it(URL, FLOW))
