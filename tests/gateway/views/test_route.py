"""GET /views on rows as the jobs write them."""

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from gateway.auth.authenticate import CredentialAuthenticator
from gateway.auth.caller import Caller
from gateway.pages.parameters import LIMIT_MAX
from gateway.state_view.store import ViewStore, view_path
from gateway.views import page
from shared.settings import GatewaySettings
from shared.timestamps import now_ms, to_rfc3339
from shared.topic_names import JOB_STATUS_TOPIC
from tests.gateway.auth.support import given, table
from tests.gateway.support import Gateway, gateway_of
from tests.gateway.views.support import BEGIN_MS, BY_AREA, HOT, MINUTE_MS, TOTALS, Rows
from tests.kafka_log import eventually
from tests.stream_jobs.views_flow import FLOW, VIEWS


@pytest.fixture
def gateway(settings: GatewaySettings) -> Iterator[Gateway]:
    with gateway_of(settings, flow=FLOW) as gateway:
        yield gateway


@pytest.fixture
def rows(store: ViewStore) -> Rows:
    return Rows(store)


def asked(gateway: Gateway, path: str, **options: Any) -> Any:
    answer = gateway.ask("GET", path, **options)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_views_are_listed(gateway: Gateway) -> None:
    listed = {one["name"]: one for one in asked(gateway, "/views")["views"]}
    assert [*listed] == [row.name for row in VIEWS]
    assert listed["sessions"]["results"] == "final"
    assert listed["sessions"]["stale_because"] == "its rows are still being read from Kafka"


def test_the_parameters_are_published(gateway: Gateway) -> None:
    path = asked(gateway, "/openapi.json")["paths"]["/views/{name}"]["get"]
    names = {one["name"] for one in path["parameters"]}
    assert names >= {
        "name",
        "area",
        "device",
        "entity_id",
        "from",
        "until",
        "closed",
        "next",
        "sort",
    }
    assert names >= {"sort", "from_now", "Last-Event-ID"}
    assert "text/event-stream" in path["responses"]["200"]["content"]


def test_rows_come_in_the_order_of_their_keys_page_by_page(gateway: Gateway, rows: Rows) -> None:
    for number in (2, 0, 1):
        rows.window("b", number, readings=number)
        rows.window("a", number, readings=number)
    found, after = [], ""
    while after is not None:
        told = asked(gateway, f"/views/by_area?limit=4&next={after}")
        assert len(told["rows"]) <= 4
        found += [(row["area"], row["readings"]) for row in told["rows"]]
        after = told["next"]
    assert found == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2)]


def test_rows_are_found_by_key_and_by_time(gateway: Gateway, rows: Rows) -> None:
    for area in ("a", "a b", 'a"', "aa", "ä"):
        for number in range(5):
            rows.window(area, number, readings=number)

    def readings(area: str, **more: str) -> list[int]:
        told = asked(gateway, "/views/by_area", params={"area": area, **more})
        assert {row["area"] for row in told["rows"]} <= {area}
        return [row["readings"] for row in told["rows"]]

    for area in ("a", "a b", 'a"', "ä"):
        assert readings(area) == [0, 1, 2, 3, 4]
    assert readings("nowhere") == []
    start, end = (to_rfc3339(BEGIN_MS + number * MINUTE_MS) for number in (1, 3))
    assert readings("a", **{"from": start, "until": end}) == [1, 2]


def test_a_row_says_whether_its_window_is_closed(gateway: Gateway, rows: Rows) -> None:
    for number in range(3):
        rows.window("a", number)
    told = asked(gateway, "/views/by_area")
    assert (told["watermark"], [row["_meta"]["closed"] for row in told["rows"]]) == (
        None,
        [False, False, False],
    )
    watermark_ms = BEGIN_MS + 2 * MINUTE_MS
    rows.said("by_area", watermark_ms=watermark_ms, late=7)
    # what the job says may be here before the rows that it speaks of
    time.sleep(0.6)
    assert asked(gateway, "/views/by_area")["watermark"] is None
    rows.caught_up(BY_AREA)
    eventually(lambda: asked(gateway, "/views/by_area")["watermark"] is not None)
    told = asked(gateway, "/views/by_area")
    assert (told["watermark"], told["late"]) == (to_rfc3339(watermark_ms), 7)
    assert [row["_meta"]["closed"] for row in told["rows"]] == [True, True, False]
    open_ones = asked(gateway, "/views/by_area?closed=false")["rows"]
    assert [row["window"]["start"] for row in open_ones] == [to_rfc3339(watermark_ms)]


def test_rows_without_windows_are_found_too(gateway: Gateway, rows: Rows) -> None:
    rows.put(HOT, {"event_id": "e-1"}, value=91.5)
    rows.put(HOT, {"event_id": "e-2"}, value=92.5)
    told = asked(gateway, "/views/hot?event_id=e-2")
    assert told["rows"] == [{"event_id": "e-2", "value": 92.5, "_meta": {"version": 1}}]
    assert told["next"] is None
    # no window, no answer to what asks for one
    assert asked(gateway, "/views/hot?closed=false")["rows"] == []
    assert asked(gateway, "/views/hot?event_id=")["rows"] == []


def test_a_first_column_may_be_of_any_kind(gateway: Gateway, rows: Rows) -> None:
    keys = [7, 77, "7", True, None, "", "null"]
    for key in keys:
        rows.put(HOT, {"event_id": key}, its=repr(key))

    def found(text: str) -> list[str]:
        answer = asked(gateway, "/views/hot", params={"event_id": text})
        return sorted(row["its"] for row in answer["rows"])

    assert found("7") == ["'7'", "7"]
    assert (found("77"), found("true"), found("")) == (["77"], ["True"], ["''"])
    assert found("null") == ["'null'", "None"]
    assert len(asked(gateway, "/views/hot")["rows"]) == len(keys)


def test_what_cannot_be_read_is_no_empty_page(
    gateway: Gateway, rows: Rows, settings: GatewaySettings
) -> None:
    rows.put(HOT, {"event_id": "e-1"}, value=1)
    assert len(asked(gateway, "/views/hot")["rows"]) == 1
    with sqlite3.connect(view_path(settings.state_dir)) as file:
        file.execute("UPDATE record SET value = ? WHERE topic = ?", (b"{}", HOT))
    answer = gateway.ask("GET", "/views/hot")
    assert (answer.status_code, answer.json()["code"]) == (503, "warming")


def test_an_old_version_changes_nothing(gateway: Gateway, rows: Rows) -> None:
    rows.put(HOT, {"event_id": "e-1"}, version=5, value=1)
    rows.put(HOT, {"event_id": "e-1"}, version=4, value=2)
    assert asked(gateway, "/views/hot")["rows"][0]["value"] == 1


def test_whoever_wants_csv_gets_it_with_a_link_to_the_next_page(
    gateway: Gateway, rows: Rows
) -> None:
    rows.window("a", 0, readings=1)
    rows.window("a", 1, readings=2)
    answer = gateway.ask("GET", "/views/by_area?limit=1", headers={"accept": "text/csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    head, line = answer.text.splitlines()
    assert head == "area,window_start,window_end,readings,_meta_version,_meta_closed"
    assert line.startswith(f"a,{to_rfc3339(BEGIN_MS)},")
    link = answer.headers["link"]
    assert link.endswith('; rel="next"')
    rest = gateway.ask("GET", link[1:].partition(">")[0], headers={"accept": "text/csv"})
    assert rest.text.splitlines()[1].startswith(f"a,{to_rfc3339(BEGIN_MS + MINUTE_MS)},")
    assert "link" not in rest.headers


def test_whoever_seeks_long_goes_on_with_the_next_page(
    gateway: Gateway, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "_LOOKED_AT_MAX", 5)
    monkeypatch.setattr(page, "_AT_ONCE", 2)
    for number in range(12):
        rows.window("a", number)
    last = to_rfc3339(BEGIN_MS + 11 * MINUTE_MS)
    found, after, pages = [], "", 0
    while after is not None:
        told = asked(gateway, "/views/by_area", params={"from": last, "next": after})
        found, after, pages = found + told["rows"], told["next"], pages + 1
    assert ([row["window"]["start"] for row in found], pages) == ([last], 3)


def of_hot(gateway: Gateway, query: str) -> list[str]:
    return [row["event_id"] for row in asked(gateway, f"/views/hot?{query}")["rows"]]


def test_rows_are_sorted_by_any_column(gateway: Gateway, rows: Rows) -> None:
    values = {"a": 7.5, "b": None, "c": -1, "d": 80, "e": 7.5, "f": "NaN"}
    for key, value in values.items():
        rows.put(HOT, {"event_id": key}, value=value, its=[1], area=f"{key} area")
    # equal ones in the order of their keys, and what is nothing last
    assert of_hot(gateway, "sort=value") == ["c", "a", "e", "d", "f", "b"]
    assert of_hot(gateway, "sort=-value") == ["f", "d", "a", "e", "c", "b"]
    assert of_hot(gateway, "sort=-value&limit=2") == ["f", "d"]
    assert of_hot(gateway, "sort=-area&limit=2") == ["f", "e"]
    assert of_hot(gateway, "sort=-event_id&event_id=c") == ["c"]
    for number in range(3):
        rows.window("a", number, readings=number)
    last = asked(gateway, "/views/by_area?sort=-window&limit=1")["rows"]
    assert [row["readings"] for row in last] == [2]


@pytest.mark.parametrize("sort", ["value", "-value"])
def test_the_first_of_many_are_the_same_as_of_all_sorted_at_once(
    gateway: Gateway, rows: Rows, sort: str
) -> None:
    chance = Random(7)
    values = {f"{number:03}": chance.choice([None, *range(40)]) for number in range(250)}
    for key, value in values.items():
        rows.put(HOT, {"event_id": key}, value=value)
    sign = -1 if sort == "-value" else 1

    def place(key: str) -> tuple[bool, int, str]:
        value = values[key]
        return value is None, sign * (value or 0), key

    expected = sorted(values, key=place)
    assert of_hot(gateway, f"sort={sort}&limit=7") == expected[:7]
    found: list[str] = []
    after = ""
    while after is not None:
        told = asked(gateway, f"/views/hot?sort={sort}&limit=60&next={after}")
        found += [row["event_id"] for row in told["rows"]]
        after = told["next"]
    assert found == expected


def test_what_cannot_be_sorted_is_told(gateway: Gateway, rows: Rows) -> None:
    def refused(path: str) -> str:
        answer = gateway.ask("GET", path)
        assert answer.status_code == 400
        detail: str = answer.json()["detail"]
        return detail

    assert asked(gateway, "/views/hot?sort=celsius")["rows"] == []
    for key in ("a", "b", "c"):
        rows.put(HOT, {"event_id": key}, value=1, its=[1])
    assert (
        refused("/views/hot?sort=-celsius")
        == "hot has no column celsius to sort by; it has: event_id, value, its"
    )
    assert "its has several values" in refused("/views/hot?sort=its")
    by_key, by_value = (
        asked(gateway, f"/views/hot?limit=1&{sort}")["next"] for sort in ("", "sort=value")
    )
    for query in (f"next={by_value}", f"sort=value&next={by_key}", f"sort=-value&next={by_value}"):
        assert "next is of another order" in refused(f"/views/hot?{query}")


def test_sorted_rows_that_cannot_be_read_are_no_empty_page(gateway: Gateway) -> None:
    answer = gateway.ask("GET", "/views/hot?sort=value")
    assert (answer.status_code, answer.json()["code"]) == (503, "warming")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("room=1", "room is no parameter here: rows can be asked for by area, from,"),
        ("from=yesterday", "from is no time such as"),
        ("until=2026-01-31", "until is no time such as"),
        ("closed=perhaps", "closed is true or false"),
        ("limit=0", f"limit is a whole number from 1 to {LIMIT_MAX}"),
        ("limit=x", "limit is a whole number"),
        ("limit=0000010009999999", "limit is a whole number"),
        (f"limit=000001000{'9' * 4_400}", "limit is a whole number"),
        ("next=%20", "next is what an answer said is next"),
        ("next=a", "next is what an answer said is next"),
        ("sort=", "sort is one column, such as"),
        ("sort=a,-b", "sort is one column, such as"),
    ],
)
def test_what_a_request_cannot_mean_is_told(
    gateway: Gateway, rows: Rows, query: str, said: str
) -> None:
    del rows
    answer = gateway.ask("GET", f"/views/by_area?{query}")
    assert answer.status_code == 400
    assert said in answer.json()["detail"]


def test_a_view_that_there_is_not_yet_or_never_is_told_apart(gateway: Gateway) -> None:
    assert gateway.ask("GET", "/views/by_area").json()["code"] == "warming"
    answer = gateway.ask("GET", "/views/nothing")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_view")
    assert "by_area, by_area_closed" in answer.json()["detail"]


def test_a_version_that_is_made_beside_the_view_is_shown_to_who_asks_for_it(
    settings: GatewaySettings, rows: Rows
) -> None:
    by_area = VIEWS[0]
    changed = replace(FLOW, views=(replace(by_area, version=2), *VIEWS))
    rows.begin("view.by_area.v2", "an id")
    rows.window("a", 0, readings=1)
    start_ms = rows.window("a", 0, "view.by_area.v2", readings=2)
    with gateway_of(settings, flow=changed) as gateway:
        versions = [(one["version"], one["shown"]) for one in asked(gateway, "/views")["views"]]
        assert versions[:2] == [(2, False), (1, True)]
        for parameters, version in (("", 1), ("?version=1", 1), ("?version=2", 2)):
            told = asked(gateway, f"/views/by_area{parameters}")
            assert (told["version"], told["rows"][0]["readings"]) == (version, version)
            assert told["read_to"] is None
        rows.said("by_area_v2", watermark_ms=start_ms, read_to_ms=start_ms + 5)
        time.sleep(0.6)
        rows.caught_up("view.by_area.v2")
        path = "/views/by_area?version=2"
        eventually(lambda: asked(gateway, path)["read_to"] == to_rfc3339(start_ms + 5))
        for wrong, status, code in (("3", 404, "unknown_version"), ("x", 400, "bad_parameter")):
            answer = gateway.ask("GET", f"/views/by_area?version={wrong}")
            assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert "there are: 2, 1" in gateway.ask("GET", "/views/by_area?version=3").text


def test_a_view_that_the_flow_has_no_more_does_not_make_the_gateway_unwell(
    settings: GatewaySettings, rows: Rows, store: ViewStore
) -> None:
    rows.begin("view.by_area.v2", "an id")
    flow = replace(FLOW, views=(replace(VIEWS[0], version=2),))
    followed = [row.topic for row in flow.with_state]
    for topic in followed:
        rows.begin(topic, "an id")
    store.caught_up([JOB_STATUS_TOPIC, BY_AREA], now_ms() - 3_600_000)
    store.caught_up([*followed, "view.by_area.v2"], now_ms())
    with gateway_of(settings, flow=flow) as gateway:
        lag = gateway.ask("GET", "/health").json()["checks"]["state_view:lag"][0]
        assert lag["status"] == "pass", lag


def test_a_caller_sees_the_rows_of_its_tenant_and_no_others(gateway: Gateway, rows: Rows) -> None:
    for tenant in (None, "acme", "beta"):
        rows.put(TOTALS, {"tenant": tenant, "entity_id": f"{tenant}/d"})
        rows.window(f"of {tenant}", 0)
    everyone = {
        name: given(caller)
        for name, caller in {
            "all": Caller("operator", all_tenants=True),
            "none": Caller("operator"),
            "acme": Caller("operator", "acme"),
            "gateway": Caller("gateway", "acme"),
            "device": Caller("device", "acme", "d"),
        }.items()
    }
    asking = gateway.rebuilt(flow=FLOW, who=CredentialAuthenticator(table(*everyone.values())))

    def seen(name: str, view: str) -> list[str | None] | int:
        answer = asking.ask("GET", f"/views/{view}", headers=everyone[name].headers)
        if answer.status_code != 200:
            return answer.status_code
        return [row.get("tenant", row.get("area")) for row in answer.json()["rows"]]

    assert seen("all", "totals") == ["acme", "beta", None]
    assert (seen("none", "totals"), seen("acme", "totals")) == ([None], ["acme"])
    assert seen("acme", "totals?sort=-entity_id") == ["acme"]
    assert (seen("gateway", "totals"), seen("device", "totals")) == (404, 404)
    # its rows are of no tenant: they tell of all at once
    every_area = ["of None", "of acme", "of beta"]
    assert (seen("all", "by_area"), seen("none", "by_area")) == (every_area, every_area)
    assert seen("acme", "by_area") == 404
    listed = asking.ask("GET", "/views", headers=everyone["acme"].headers).json()["views"]
    assert [one["name"] for one in listed] == ["totals"]
