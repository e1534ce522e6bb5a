"""Rows of views as server-sent events, behind real uvicorn, on rows as the jobs write them."""

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from random import Random

import httpx
import pytest

from gateway.auth.authenticate import CredentialAuthenticator
from gateway.auth.caller import Caller
from gateway.state_view.store import ViewStore, remove, view_path
from gateway.views import change_hub
from gateway.views.change_streams import _takes_streams
from shared.settings import GatewaySettings
from shared.timestamps import to_rfc3339
from tests.gateway.auth.support import given, table
from tests.gateway.event_streams.support import Frame, Stream, frames_of
from tests.gateway.support import Served, gateway_of, serving
from tests.gateway.views.support import BEGIN_MS, HOT, MINUTE_MS, TOTALS, Rows, changes_of
from tests.stream_jobs.views_flow import FLOW

PARTITIONS = 3


@pytest.fixture
def settings(settings: GatewaySettings) -> GatewaySettings:
    return settings.model_copy(update={"event_heartbeat_s": 0.2})


@pytest.fixture
def rows(store: ViewStore) -> Rows:
    return Rows(store, PARTITIONS)


@pytest.fixture
def served(settings: GatewaySettings) -> Iterator[Served]:
    with gateway_of(settings, flow=FLOW) as gateway, serving(gateway, settings) as served:
        yield served


def keys(frames: list[Frame]) -> list[str]:
    return [frame.data["event_id"] for frame in frames]


def test_rows_come_first_and_then_each_change(served: Served, rows: Rows) -> None:
    for key in "abcdef":
        rows.put(HOT, {"event_id": key}, value=1)
    with changes_of(served.url, "/views/hot") as stream:
        assert stream.answer.headers["content-type"] == "text/event-stream"
        shown = stream.take(6)
        assert sorted(keys(shown)) == [*"abcdef"]
        assert shown[0].data["_meta"] == {"version": 1}
        rows.put(HOT, {"event_id": "a"}, version=2, value=2)
        rows.put(HOT, {"event_id": "a"}, version=1, value=1)  # after a lost checkpoint
        rows.put(HOT, {"event_id": "g"}, value=7)
        changes = {frame.data["event_id"]: frame.data for frame in stream.take(2)}
        assert changes["a"] == {"event_id": "a", "value": 2, "_meta": {"version": 2}}
        assert [*changes] == ["a", "g"] or [*changes] == ["g", "a"]


def test_streams_of_two_versions_of_a_view_do_not_meet(
    settings: GatewaySettings, rows: Rows
) -> None:
    (hot,) = (row for row in FLOW.views if row.name == "hot")
    flow = replace(FLOW, views=(*FLOW.views, replace(hot, version=2)))
    second = "view.hot.v2"
    rows.begin(second, "an id")
    with (
        gateway_of(settings, flow=flow) as gateway,
        serving(gateway, settings) as served,
        changes_of(served.url, "/views/hot?from_now") as shown,
    ):
        next(shown.frames)
        with changes_of(served.url, "/views/hot?version=2&from_now") as beside:
            next(beside.frames)
            for key in "ab":
                rows.put(HOT, {"event_id": key}, value=1)
                rows.put(second, {"event_id": f"{key}2"}, value=2)
            assert sorted(keys(shown.take(2))) == ["a", "b"]
            assert sorted(keys(beside.take(2))) == ["a2", "b2"]
        time.sleep(0.5)  # the other one has ended
        rows.put(HOT, {"event_id": "c"}, value=1)
        assert keys(shown.take(1)) == ["c"]


def test_a_stream_may_begin_now(served: Served, rows: Rows) -> None:
    rows.put(HOT, {"event_id": "a"}, value=1)
    with changes_of(served.url, "/views/hot?from_now") as stream:
        next(stream.frames)
        rows.put(HOT, {"event_id": "b"}, value=1)
        assert keys(stream.take(1)) == ["b"]


def test_only_rows_of_the_selection_come(served: Served, rows: Rows) -> None:
    since = to_rfc3339(BEGIN_MS + MINUTE_MS)
    for number in range(3):
        for area in ("a", "b"):
            rows.window(area, number, readings=number)
    with changes_of(served.url, f"/views/by_area?area=a&from={since}") as stream:
        assert sorted(frame.data["readings"] for frame in stream.take(2)) == [1, 2]
        rows.window("b", 2, readings=8)
        rows.window("a", 0, readings=8)
        rows.window("a", 2, readings=9)
        (shown,) = stream.take(1)
        assert (shown.data["area"], shown.data["readings"]) == ("a", 9)


def test_it_goes_on_from_any_id(served: Served, rows: Rows) -> None:
    expected = [f"{number:03}" for number in range(250)]
    for key in expected:
        rows.put(HOT, {"event_id": key}, value=1)
    with changes_of(served.url, "/views/hot") as stream:
        whole = stream.take(250)
    assert sorted(keys(whole)) == expected
    for at in (0, 1, 99, 100, 137, 248):
        with changes_of(served.url, "/views/hot", whole[at].id) as stream:
            assert keys(stream.take(249 - at)) == keys(whole[at + 1 :])
    with changes_of(served.url, "/views/hot?from_now", whole[248].id) as stream:
        assert keys(stream.take(1)) == keys(whole[249:])


def test_a_sign_of_life_moves_the_id_on(served: Served, rows: Rows) -> None:
    with changes_of(served.url, "/views/hot?event_id=z") as stream:
        begin = next(stream.frames).id
        rows.put(HOT, {"event_id": "a"}, value=1)
        later = next(frame.id for frame in stream.frames if frame.id != begin)
    with changes_of(served.url, "/views/hot", later) as stream:
        rows.put(HOT, {"event_id": "b"}, value=1)
        assert keys(stream.take(1)) == ["b"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_who_comes_again_at_any_time_has_the_view(
    served: Served, settings: GatewaySettings, seed: int
) -> None:
    """Rows change all the time, in all partitions, also to older versions."""
    chance = Random(seed)
    newest: dict[str, int] = {}
    is_over = threading.Event()

    def write() -> None:
        its, store = Random(seed), ViewStore(view_path(settings.state_dir))
        rows = Rows(store, PARTITIONS)
        for number in range(4000):
            key = f"{its.randrange(300)}"
            version = number if its.random() < 0.8 else its.randrange(number + 1)
            newest[key] = max(version, newest.get(key, -1))
            rows.put(HOT, {"event_id": key}, version=version)
        is_over.set()
        store.close()

    writing = threading.Thread(target=write)
    writing.start()
    seen: dict[str, int] = {}
    last_id = ""
    while not (is_over.is_set() and seen == newest):
        with changes_of(served.url, "/views/hot", last_id) as stream:
            for frame in stream.frames:
                last_id = frame.id
                if frame.data is not None:
                    key, version = frame.data["event_id"], frame.data["_meta"]["version"]
                    assert seen.get(key, -1) <= version  # what is shown was never newer
                    seen[key] = version
                if seen == newest if is_over.is_set() else chance.random() < 0.01:
                    break
    writing.join()
    assert seen == newest


def test_a_copy_that_is_made_anew_leaves_no_gap(
    served: Served, rows: Rows, store: ViewStore, settings: GatewaySettings
) -> None:
    rows.put(HOT, {"event_id": "a"}, value=1)
    with changes_of(served.url, "/views/hot") as stream:
        assert keys(stream.take(1)) == ["a"]
        store.close()
        remove(view_path(settings.state_dir))
        anew = ViewStore(view_path(settings.state_dir))
        again = Rows(anew, PARTITIONS)
        again.put(HOT, {"event_id": "a"}, value=1)
        again.put(HOT, {"event_id": "b"}, value=1)
        assert keys(stream.take(1)) == ["b"]
        anew.close()


def test_another_topic_of_the_same_name_is_begun_anew(served: Served, rows: Rows) -> None:
    rows.put(HOT, {"event_id": "a"}, value=1)
    with changes_of(served.url, "/views/hot") as stream:
        (shown,) = stream.take(1)
        rows.begin(HOT, "another id")
        (end,) = stream.take(1)
        assert (end.event, end.data["reason"]) == ("end", "log_changed")
    with changes_of(served.url, "/views/hot", shown.id) as stream:
        assert (stream.answer.status_code, stream.answer.json()["code"]) == (410, "position_gone")
    with changes_of(served.url, "/views/totals", shown.id) as stream:
        assert stream.answer.status_code == 410


def test_a_tenant_sees_its_own_rows_and_changes_alone(
    settings: GatewaySettings, rows: Rows
) -> None:
    names = {"all": Caller("operator", all_tenants=True), "acme": Caller("operator", "acme")}
    names |= {"none": Caller("operator"), "device": Caller("device", "acme", "d")}
    who = {name: given(caller) for name, caller in names.items()}
    asking = CredentialAuthenticator(table(*who.values()))

    def put(version: int) -> None:
        for tenant in (None, "acme", "beta", "null"):
            key = {"tenant": tenant, "entity_id": f"{tenant}/d"}
            rows.put(TOTALS, key, version=version)

    put(1)
    with (
        gateway_of(settings, flow=FLOW, who=asking) as gateway,
        serving(gateway, settings) as served,
        ExitStack() as open_,
    ):

        def stream(name: str, path: str) -> Stream:
            reading = changes_of(served.url, path, headers=who[name].headers)
            return open_.enter_context(reading)

        def tenants(stream: Stream, count: int) -> list[str | None]:
            return sorted((frame.data["tenant"] for frame in stream.take(count)), key=str)

        acme, none = stream("acme", "/views/totals"), stream("none", "/views/totals")
        every = stream("all", "/views/totals")
        greedy = stream("acme", "/views/totals?tenant=beta")
        for version in (2, 3):
            assert (tenants(acme, 1), tenants(none, 1)) == (["acme"], [None])
            assert tenants(greedy, 1) == ["acme"]
            assert tenants(every, 4) == [None, "acme", "beta", "null"]
            put(version)
        assert stream("acme", "/views/hot").answer.status_code == 404
        assert stream("device", "/views/totals").answer.status_code == 404
        assert httpx.get(f"{served.url}/views/totals").status_code == 401


def test_one_caller_cannot_have_all_streams(settings: GatewaySettings, rows: Rows) -> None:
    rows.put(HOT, {"event_id": "a"}, value=1)
    few = settings.model_copy(update={"event_streams_max": 4, "event_streams_share_max": 0.25})
    operator = given(Caller("operator"))
    who = CredentialAuthenticator(table(operator))
    with (
        gateway_of(few, flow=FLOW, who=who) as gateway,
        serving(gateway, few) as served,
        ExitStack() as open_,
    ):

        def status() -> int:
            reading = changes_of(served.url, "/views/hot", headers=operator.headers)
            return open_.enter_context(reading).answer.status_code

        assert [status() for _ in range(4)] == [200, 200, 200, 429]


def test_rows_that_are_not_read_yet_are_waited_for(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_hub, "_BEGINS_WITHIN_S", 0.2)
    with changes_of(served.url, "/views/hot") as stream:
        assert (stream.answer.status_code, stream.answer.json()["code"]) == (503, "warming")


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("nothing", 404, "no such view"),
        ("hot?room=1", 400, "room is no parameter here"),
        ("hot?closed=true", 400, "closed is of pages, not of streams: a row closes without"),
        ("hot?limit=10", 400, "limit is of pages"),
        ("hot?sort=value", 400, "sort is of pages"),
        ("hot?from_now=perhaps", 400, "from_now is true or false"),
    ],
)
def test_what_cannot_be_asked_is_told(served: Served, path: str, status: int, said: str) -> None:
    with changes_of(served.url, f"/views/{path}") as stream:
        assert stream.answer.status_code == status
        assert said in stream.answer.json()["detail"]


def test_an_id_of_something_else_is_told(served: Served, rows: Rows) -> None:
    del rows
    with changes_of(served.url, "/views/hot", "nonsense") as stream:
        assert (stream.answer.status_code, stream.answer.json()["code"]) == (400, "bad_event_id")


def test_from_now_is_of_streams(served: Served) -> None:
    answer = httpx.get(f"{served.url}/views/hot?from_now")
    assert answer.status_code == 400
    assert "from_now is of streams" in answer.json()["detail"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_shows_rows_as_they_come(served: Served, rows: Rows) -> None:
    rows.put(HOT, {"event_id": "a"}, value=1)
    command = ["curl", "-sN", "-H", "Accept: text/event-stream", f"{served.url}/views/hot"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as curl:
        assert curl.stdout
        stream = Stream(httpx.Response(200), frames_of(line.rstrip("\n") for line in curl.stdout))
        assert keys(stream.take(1)) == ["a"]
        rows.put(HOT, {"event_id": "b"}, value=1)
        assert keys(stream.take(1)) == ["b"]
        curl.kill()


@pytest.mark.parametrize(
    ("accept", "is_one"),
    [
        (b"text/event-stream", True),
        (b"Text/Event-Stream;q=0.5", True),
        (b"application/json, text/event-stream", True),
        (b"application/json, text/event-stream;q=0", False),
        (b"text/event-stream; Q=0.000", False),
        (b"text/event-streams", False),
        (b"*/*", False),
        (b"", False),
    ],
)
def test_a_stream_is_for_who_accepts_one(accept: bytes, is_one: bool) -> None:
    assert _takes_streams(accept) is is_one
