"""The parts of `./headrace demo --alarms`, against a gateway of the test's own."""

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from desk.hooks.service import NoHookError
from local_stack.demo import alarm_hook
from local_stack.demo.alarm_hook import NAME, own_hook
from local_stack.demo.alarm_page import PAGE
from local_stack.demo.alarm_server import AlarmServer
from local_stack.demo.alarm_times import AlarmTimes, spread
from local_stack.demo.alarm_watch import AlarmWatch
from local_stack.demo.gateway_client import Gateway
from local_stack.demo.show import alarm, alarm_books
from local_stack.terminal.errors import StackError
from shared.forwarding.signature import key_of, new_secret, signed

SECRET = new_secret()


def event(number: int) -> dict[str, Any]:
    data = {"value": 81.26, "area": "area-01"}
    return {"id": f"e-{number}", "entity_id": "device-0001", "arrived_ms": 1_000, "data": data}


def frame(number: int) -> str:
    return f"id: at-{number}\ndata: {json.dumps(event(number))}\n\n"


# what each request for events gets; the answer to the last one stays open
STREAMS = (
    f"id: at-0\n\n{frame(1)}: still here\nid: at-2\n\nevent: end\nid: at-2\ndata: {{}}\n\n",
    f"{frame(2)}id: at-3\n",  # cut between an id and its event
    frame(3),
)


class FakeGateway:
    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        fake = self
        self.is_over = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                fake.asked.append({"path": self.path, **headers})
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                number = min(len(fake.asked), len(STREAMS))
                self.wfile.write(STREAMS[number - 1].encode())
                if number == len(STREAMS):
                    fake.is_over.wait(10)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def fake() -> Iterator[FakeGateway]:
    gateway = FakeGateway()
    threading.Thread(target=gateway.server.serve_forever, args=(0.05,), daemon=True).start()
    yield gateway
    gateway.is_over.set()
    gateway.server.shutdown()
    gateway.server.server_close()


@pytest.fixture
def heard() -> list[str]:
    return []


@pytest.fixture
def server(fake: FakeGateway, heard: list[str]) -> Iterator[AlarmServer]:
    with AlarmServer(fake.url, "a-token", SECRET, lambda id_, _: heard.append(id_)) as server:
        yield server


def posted(server: AlarmServer, secret: str = SECRET) -> int:
    headers = signed("e-1", int(time.time()), b"{}", [key_of(secret)])
    return httpx.post(server.hook_url, content=b"{}", headers=headers, trust_env=False).status_code


def test_the_webhook_takes_what_is_signed_with_its_secret(
    server: AlarmServer, heard: list[str]
) -> None:
    assert posted(server) == 204
    assert heard == ["e-1"]
    assert (posted(server, new_secret()), server.forged) == (401, 1)
    assert httpx.post(f"{server.page_url}other", trust_env=False).status_code == 404
    assert heard == ["e-1"]


def test_the_page_is_whole_and_nobody_else_s(server: AlarmServer) -> None:
    page = httpx.get(server.page_url, trust_env=False)
    assert page.text == PAGE
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert re.findall(r"https?:|src=|href=|@import|innerHTML", page.text) == []
    assert re.findall(r'new EventSource\("(.*)"\)', page.text) == ["/events"]
    led_here = {"host": "evil.example"}
    for path in ("", "events"):
        url = f"{server.page_url}{path}"
        assert httpx.get(url, headers=led_here, trust_env=False).status_code == 403


def test_the_event_stream_is_passed_on_byte_for_byte(
    server: AlarmServer, fake: FakeGateway
) -> None:
    url, last = f"{server.page_url}events", {"last-event-id": "at-9"}
    answer = httpx.get(url, headers=last, trust_env=False)
    assert (answer.headers["content-type"], answer.text) == ("text/event-stream", STREAMS[0])
    (asked,) = fake.asked
    assert asked["path"] == "/v1/events?type=alarm_raised"
    assert (asked["authorization"], asked["last-event-id"]) == ("Bearer a-token", "at-9")


def test_a_stream_that_ends_goes_on_behind_the_last_whole_event(
    fake: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local_stack.demo.gateway_client._COME_AGAIN_S", 0.0)

    async def three() -> list[str]:
        opened, found = asyncio.Event(), []
        async with Gateway(fake.url) as gateway:
            async for one in gateway.events("alarm_raised", opened):
                assert opened.is_set()
                found.append(one["id"])
                if len(found) == 3:
                    break
        return found

    assert asyncio.run(three()) == ["e-1", "e-2", "e-3"]
    assert [asked.get("last-event-id") for asked in fake.asked] == [None, "at-2", "at-2"]


def test_an_alarm_counts_once_it_has_reached_both() -> None:
    times = AlarmTimes()
    assert times.on_webhook("e-1", 1_400) is None
    first = times.on_stream(event(1), 1_300)
    assert first is not None
    assert (first.webhook_ms, first.stream_ms) == (400, 300)
    assert alarm(first) == (
        "  device-0001: alarm at 81.3, at the webhook after 400 ms, "
        "in the event stream after 300 ms"
    )
    assert times.on_stream(event(1), 9_000) is times.on_webhook("e-1", 9_000) is None
    assert times.all_reached
    assert times.on_stream(event(2), 1_500) is None
    assert (times.undelivered, times.all_reached) == (1, False)
    assert "1 more have not reached the webhook" in alarm_books(times)[-1]
    assert times.on_webhook("e-2", 1_900) is not None
    # of a test, or from before the stream was open
    assert times.on_webhook("e-3", 1_900) is None
    assert times.all_reached
    assert times.as_document()["webhook_ms"] == {"p50": 400, "p99": 900, "max": 900}
    assert "to the webhook       p50 400 ms  p99 900 ms  max 900 ms" in alarm_books(times)[1]


def test_the_spread_of_many() -> None:
    assert spread(range(200, 0, -1)) == {"p50": 100, "p99": 198, "max": 200}
    assert spread([]) == {}


def test_without_an_alarm_it_says_so() -> None:
    watch = AlarmWatch("http://page", AlarmTimes())
    assert not watch.is_overdue
    watch.expect_one_within(60)
    assert (watch.is_overdue, watch.are_in) == (False, False)
    watch.expect_one_within(-1)
    watch.expect_one_within(60)
    assert (watch.is_overdue, watch.are_in) == (True, True)
    assert not watch.times.all_reached
    assert "No alarm has come" in alarm_books(watch.times)[0]


class FakeDesk:
    """Its forward does what `said` says of each test; a killed demo has left a hook."""

    def __init__(self, said: str | None) -> None:
        self.hooks: dict[str, Any] = {NAME: "left"}
        self._said = said

    def add(self, name: str, fields: dict[str, Any], secret: str, *, by: str) -> None:
        assert by
        assert name not in self.hooks
        self.hooks[name] = (fields["url"], fields["types"], secret)

    def delete(self, name: str, *, by: str) -> None:
        assert by
        if self.hooks.pop(name, None) is None:
            raise NoHookError

    def send_test(self, _name: str, *, by: str) -> str:
        assert by
        return "t-1"

    def log(self, *_: object) -> list[dict[str, Any]]:
        return [] if self._said is None else [{"event_id": "t-1", "said": self._said}]


def test_the_hook_is_there_as_long_as_the_demo_runs() -> None:
    desk: Any = FakeDesk("")
    come = iter([False, True])
    with own_hook(desk, "http://here/hook", SECRET, lambda _: next(come)):
        assert desk.hooks == {NAME: ("http://here/hook", ("alarm_raised",), SECRET)}
    assert desk.hooks == {}


@pytest.mark.parametrize(
    ("said", "what", "fix"),
    [
        ("not sent: it must …", "only to the open internet", "_ALLOWED=127.0.0.1 ./headrace up"),
        (None, "has sent the demo's webhook nothing", "./headrace hooks log demo-alarms"),
    ],
)
def test_a_webhook_that_is_not_reached_is_a_sentence_and_goes(
    said: str | None, what: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alarm_hook, "_REACHED_WITHIN_S", 0.0)
    desk: Any = FakeDesk(said)
    with pytest.raises(StackError) as error, own_hook(desk, "u", SECRET, lambda _: False):
        pass
    assert what in error.value.what
    assert fix in error.value.fix
    assert desk.hooks == {}


def test_a_gateway_that_opens_no_stream_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local_stack.demo.alarm_watch._OPEN_WITHIN_S", 0.01)

    async def silent(*_: object) -> Any:
        await asyncio.sleep(10)
        yield

    async def follow() -> None:
        watch = AlarmWatch("http://page", AlarmTimes())
        gateway: Any = SimpleNamespace(events=silent)
        task = asyncio.create_task(watch.follow(gateway))
        try:
            await watch.is_open()
        finally:
            task.cancel()

    with pytest.raises(StackError, match="opened no event stream"):
        asyncio.run(follow())
