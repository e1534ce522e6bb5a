"""What states were, as persist has stored it in a real PostgreSQL."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from pydantic import SecretStr

from clients.postgres.grants import GATEWAY
from gateway.auth.authenticate import CredentialAuthenticator
from gateway.auth.caller import Caller
from gateway.history import stored_events
from gateway.history.store import HistoryStore
from gateway.http.problems import Problem
from gateway.state_view.store import ViewStore
from local_stack.run.stack import Stack
from shared.flow import FLOW as SAMPLE
from shared.folding.snapshot import encode_total
from shared.settings import GatewaySettings
from shared.timestamps import now_ms, to_rfc3339
from tests.builders import event_record
from tests.gateway.auth.support import given, table
from tests.gateway.history.world import BEGAN_MS, FLOW, World
from tests.gateway.support import Gateway, gateway_of
from tests.servers import in_database_of

pytestmark = pytest.mark.stack

NOWHERE = "postgresql://headrace@127.0.0.1:1/headrace"


@pytest.fixture
def settings(settings: GatewaySettings, parts: Stack, postgres_url: str) -> GatewaySettings:
    """As the gateway asks: under its own role."""
    url = in_database_of(postgres_url, parts.postgres_url_of(GATEWAY))
    return settings.model_copy(update={"postgres_url": SecretStr(url), "why_events_max": 20})


@pytest.fixture
def gateway(settings: GatewaySettings) -> Iterator[Gateway]:
    with gateway_of(settings, flow=FLOW) as gateway:
        yield gateway


@pytest.fixture
def world(postgres_url: str, store: ViewStore) -> Iterator[World]:
    world = World(postgres_url, store)
    yield world
    world.rows.close()


def _asked(gateway: Gateway, path: str, status: int = 200, **options: Any) -> Any:
    answer = gateway.ask("GET", path, **options)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_state_is_told_as_it_was_in_a_version_and_at_a_time(
    gateway: Gateway, world: World
) -> None:
    seen = []
    for offset in (1, 2, 3):
        told = world.fold(event_record(offset, value=20 + offset))
        seen.append((told["at_ms"], _asked(gateway, "/state/device-0001")))
    for number, (at_ms, shown) in enumerate(seen):
        wanted = {k: v for k, v in shown.items() if k in ("state", "version", "updated_at")}
        for path in (
            f"/state/device-0001?version={shown['version']}",
            f"/state/device/device-0001?at={to_rfc3339(at_ms)}",
            f"/state/device-0001?at={to_rfc3339(at_ms + 999)}",
        ):
            told = _asked(gateway, path)
            assert {k: told[k] for k in wanted} == wanted
            until = seen[number + 1][1]["updated_at"] if number < 2 else None
            assert told["until"] == until
    assert _asked(gateway, "/state/device-0001?version=9", 404)["code"] == "unknown_version"
    early = to_rfc3339(BEGAN_MS - 1)
    assert _asked(gateway, f"/state/device-0001?at={early}", 404)["code"] == "unknown_id"
    late = to_rfc3339(now_ms() + 60_000)
    assert _asked(gateway, f"/state/device-0001?at={late}", 400)["code"] == "bad_parameter"
    both = f"/state/device-0001?at={early}&version=1"
    assert _asked(gateway, both, 400)["code"] == "bad_parameter"
    assert _asked(gateway, "/state/device-0001?at=noon", 400)["code"] == "bad_parameter"


def test_what_persist_has_not_stored_yet_is_not_told_wrong(gateway: Gateway, world: World) -> None:
    world.fold(event_record(1))
    behind = world.fold(event_record(2), stored=False)
    at = to_rfc3339(behind["at_ms"])
    assert _asked(gateway, f"/state/device-0001?at={at}", 503)["code"] == "not_stored_yet"
    assert _asked(gateway, "/state/device-0001?version=2", 503)["code"] == "not_stored_yet"
    world.fold(event_record(3))
    assert _asked(gateway, "/state/device-0001?version=2", 404)["code"] == "unknown_version"


def test_the_history_comes_page_by_page_and_by_field(
    gateway: Gateway, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_events, "_AT_ONCE", 2)
    values = [21, 22, 22, 22, 40, 22, 22]
    for offset, value in enumerate(values, 1):
        world.fold(event_record(offset, value=value))

    def pages(path: str) -> Iterator[dict[str, Any]]:
        after = ""
        while True:
            page = _asked(gateway, path + after)
            yield from page["versions"]
            if page["next"] is None:
                return
            after = f"&next={page['next']}"

    found = [*pages("/state/device-0001/history?limit=3")]
    assert [one["version"] for one in found] == [7, 6, 5, 4, 3, 2, 1]
    state: dict[str, Any] = {}
    for one in reversed(found):
        state |= one["changed"]
    assert state == _asked(gateway, "/state/device-0001")["state"]
    by_field = [*pages("/state/device/device-0001/history?limit=1&field=value")]
    assert [one["version"] for one in by_field] == [6, 5, 2, 1]
    monkeypatch.setattr(stored_events, "_LOOKED_AT_MAX", 2)
    assert [one["version"] for one in pages("/state/device-0001/history?field=max")] == [5, 2, 1]


def test_each_field_has_the_event_that_set_it_until_there_are_too_many(
    gateway: Gateway, world: World
) -> None:
    saw = event_record(2, value=30, saw={"area/area-01": 4})
    world.fold(event_record(1, value=50), saw, event_record(3, value=30))
    told = _asked(gateway, "/state/device-0001/why")
    assert told["version"] == 3
    fields = told["fields"]
    assert fields["max"] == {
        "value": 50,
        "event": {
            "id": "event-1",
            "type": "reading",
            "time": to_rfc3339(BEGAN_MS + 1),
            "arrived_at": to_rfc3339(BEGAN_MS + 1),
            "position": "event.reading.v1/0/1",
            "payload": {"id": "event-1", "origin": "ingest.telemetry.v1/0/1"},
        },
    }
    assert fields["value"]["event"]["id"] == "event-2"
    assert fields["value"]["event"]["saw"] == {"area/area-01": 4}
    assert fields["count"]["event"]["id"] == "event-3"
    assert fields["connection"]["event"] is None
    for offset in range(4, 22):
        world.fold(event_record(offset))
    many = _asked(gateway, "/state/device-0001/why", 422)
    assert many["code"] == "too_many_events"
    assert "HEADRACE_WHY_EVENTS_MAX" in many["detail"]


def test_an_aggregate_has_a_history_and_no_events(gateway: Gateway, world: World) -> None:
    for number in (1, 2):
        value = encode_total({"n": number}, number, BEGAN_MS, "a sum")
        world.publish("state.area.v1", "area-01", value)
    assert _asked(gateway, "/state/area/area-01?version=1")["state"] == {"n": 1}
    changed = [v["changed"] for v in _asked(gateway, "/state/area/area-01/history")["versions"]]
    assert changed == [{"n": 2}, {"n": 1}]
    assert _asked(gateway, "/state/area/area-01/why", 404)["code"] == "no_events"


@pytest.mark.usefixtures("world")
def test_without_a_history_the_flow_s_row_is_named(settings: GatewaySettings) -> None:
    with gateway_of(settings, flow=SAMPLE) as gateway:
        for path in ("?version=1", "/history", f"?at={to_rfc3339(BEGAN_MS)}"):
            refused = _asked(gateway, f"/state/area/area-01{path}", 404)
            assert (refused["code"], "history=True" in refused["detail"]) == ("no_history", True)


def test_a_device_whose_id_is_a_route_s_word_is_still_found(gateway: Gateway, world: World) -> None:
    for name in ("history", "why", "device"):
        world.fold(event_record(1, entity_id=name, id=name))
    assert _asked(gateway, "/state/device/history")["id"] == "history"
    assert _asked(gateway, "/state/device/why")["id"] == "why"
    for path in ("/state/history/history", "/state/device/history/history"):
        assert _asked(gateway, path)["versions"][0]["version"] == 1
    assert _asked(gateway, "/state/device/device/why")["fields"]["count"]["event"]["id"] == "device"


def test_everyone_reads_the_past_of_what_is_theirs_to_read(gateway: Gateway, world: World) -> None:
    for tenant in ("", "acme/", "beta/"):
        device = f"{tenant}device-0001"
        world.fold(event_record(1, entity_id=device, id=f"{tenant}e"))
    everyone = {
        name: given(caller)
        for name, caller in {
            "own": Caller("device", "acme", "device-0001"),
            "other": Caller("device", "acme", "device-0002"),
            "of its tenant": Caller("gateway", "acme"),
            "of another": Caller("operator", "beta"),
            "of all": Caller("operator", all_tenants=True),
        }.items()
    }
    asking = gateway.rebuilt(flow=FLOW, who=CredentialAuthenticator(table(*everyone.values())))
    paths = ("?version=1", f"?at={to_rfc3339(BEGAN_MS + 60_000)}", "/history", "/why")
    for path in paths:
        assert _asked(asking, f"/state/device-0001{path}", 401)["code"] == "unauthenticated"
        for name, one in everyone.items():
            wanted = 404 if name == "other" else 200
            _asked(asking, f"/state/device-0001{path}", wanted, headers=one.headers)
        sign = "&" if "?" in path else "?"
        acme = f"/state/device-0001{path}{sign}tenant=acme"
        for name, status in {"own": 200, "of another": 404, "of all": 200}.items():
            _asked(asking, acme, status, headers=everyone[name].headers)
    why = _asked(asking, "/state/device-0001/why", headers=everyone["own"].headers)
    assert why["fields"]["count"]["event"]["id"] == "acme/e"


def test_without_postgresql_only_the_past_is_not_told(
    settings: GatewaySettings, world: World
) -> None:
    world.fold(event_record(1))
    away = settings.model_copy(update={"postgres_url": SecretStr(NOWHERE)})
    with gateway_of(away, flow=FLOW) as gateway:
        for path in ("?version=1", f"?at={to_rfc3339(now_ms())}", "/history", "/why"):
            refused = gateway.ask("GET", f"/state/device-0001{path}")
            assert (refused.status_code, refused.json()["code"]) == (503, "store_away")
            assert refused.headers["retry-after"] == "2"
        assert _asked(gateway, "/state/device-0001")["version"] == 1
        assert gateway.post().status_code == 202


def test_an_id_with_a_nul_is_nobody_s_and_no_fault_of_the_store(
    gateway: Gateway, world: World
) -> None:
    world.fold(event_record(1))
    for path in ("?version=1", "/history", "/why"):
        assert gateway.ask("GET", f"/state/device%00{path}").status_code in (400, 404)
    assert _asked(gateway, "/state/device-0001?version=1")["version"] == 1


def test_more_than_have_room_are_refused_and_the_loop_goes_on() -> None:
    history = HistoryStore(NOWHERE)

    async def crowd() -> list[Any]:
        asked = [asyncio.ensure_future(history.work(partial(time.sleep, 0.2))) for _ in range(20)]
        began_s = time.monotonic()
        await asyncio.sleep(0)
        assert time.monotonic() - began_s < 0.2
        return await asyncio.gather(*asked, return_exceptions=True)

    refused = [one for one in asyncio.run(crowd()) if isinstance(one, Problem)]
    assert [(one.status, one.code) for one in refused] == [(503, "too_many_questions")] * 4
