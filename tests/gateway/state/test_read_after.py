"""GET /state of who knows what is to be in it."""

import time
from collections.abc import Callable
from typing import Any

import httpx
import orjson
import pytest

from gateway.state_view.records import Row
from gateway.state_view.store import ViewStore
from shared.folding.snapshot import id_digest
from shared.timestamps import now_ms
from tests.gateway.support import Gateway

TOPIC = "state.device.v1"
Put = Callable[[Row], None]


@pytest.fixture(autouse=True)
def warm(store: ViewStore) -> None:
    store.begin_topic(TOPIC, "an id")
    store.begin_topic("state.area.v1", "an id")
    store.caught_up([TOPIC, "state.area.v1"], now_ms())


def _row(version: int, *ids: str, **meta: Any) -> Row:
    rings = {"reading": "".join(map(id_digest, ids))}
    known = {"version": version, "event_time_ms": 1, "rings": rings, **meta}
    value = orjson.dumps({"count": version, "_meta": known})
    return Row(TOPIC, b"device-0001", value, version, 1, 0, version)


def _get(gateway: Gateway, query: str = "", **headers: str) -> httpx.Response:
    return gateway.ask("GET", f"/state/device-0001?{query}", headers=headers)


def test_a_version_is_waited_for(gateway: Gateway, put: Put, put_soon: Put) -> None:
    put(_row(3))
    header = {"if-version-at-least": "4"}
    early = _get(gateway, "timeout=100ms", **header)
    assert (early.status_code, early.json()["code"]) == (412, "version_not_reached")
    assert "version 3 here, not 4" in early.json()["detail"]
    assert _get(gateway, "timeout=0s", **{"if-version-at-least": "3"}).json()["version"] == 3
    put_soon(_row(5))
    assert _get(gateway, "timeout=20s", **header).json()["version"] == 5


def test_an_event_is_waited_for_by_the_id_of_its_receipt(
    gateway: Gateway, put: Put, put_soon: Put
) -> None:
    early = _get(gateway, "after=event-2&timeout=100ms")
    assert (early.status_code, early.json()["code"]) == (412, "event_not_folded")
    put(_row(1, "event-1"))
    put_soon(_row(2, "event-1", "event-2"))
    assert _get(gateway, "after=event-2&timeout=20s").json()["version"] == 2
    assert _get(gateway, "after=event-1&timeout=0s").json()["version"] == 2


def test_a_burst_is_known_too(gateway: Gateway, put: Put) -> None:
    bursts = {"reading": [(0, id_digest("a") + id_digest("b"))]}
    put(_row(9, bursts=bursts))
    assert _get(gateway, "after=b&timeout=0s").status_code == 200


def test_an_event_that_fold_has_parked_is_not_waited_for(gateway: Gateway, put: Put) -> None:
    put(_row(1, "event-1", parked=["event-1"]))
    began_s = time.monotonic()
    answer = _get(gateway, "after=event-1&timeout=30s")
    assert (answer.status_code, answer.json()["code"]) == (409, "event_parked")
    assert time.monotonic() - began_s < 20


@pytest.mark.parametrize("bad", ["5", "-1s", "soon"])
def test_a_timeout_that_is_none_is_told_what_to_write(gateway: Gateway, put: Put, bad: str) -> None:
    put(_row(1, "event-1"))
    answer = _get(gateway, f"after=event-1&timeout={bad}")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_timeout")
    assert "5s or 500ms" in answer.json()["detail"]


def test_nobody_waits_longer_than_may_be(gateway: Gateway) -> None:
    short = gateway.rebuilt(gateway.settings.model_copy(update={"wait_max_s": 0.1}))
    began_s = time.monotonic()
    assert _get(short, "after=event-1&timeout=30s").status_code == 412
    assert time.monotonic() - began_s < 20


def test_a_state_of_none_has_version_zero(gateway: Gateway) -> None:
    """So it is looked for at once, and is not there."""
    answer = _get(gateway, "timeout=30s", **{"if-version-at-least": "0"})
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_id")


def test_an_aggregate_has_versions_and_no_events(gateway: Gateway) -> None:
    answer = gateway.ask("GET", "/state/area/area-01?after=event-1")
    assert (answer.status_code, answer.json()["code"]) == (400, "no_events")
    header = {"if-version-at-least": "1"}
    answer = gateway.ask("GET", "/state/area/area-01?timeout=0s", headers=header)
    assert answer.status_code == 412


def test_no_more_wait_than_may(gateway: Gateway, put: Put) -> None:
    put(_row(1))
    none = gateway.rebuilt(gateway.settings.model_copy(update={"waiting_posts_max": 0}))
    began_s = time.monotonic()
    answer = _get(none, "after=event-1&timeout=30s")
    assert (answer.status_code, answer.json()["code"]) == (503, "too_many_waiting")
    assert answer.headers["retry-after"] == "1"
    assert _get(none, "after=event-1&timeout=0s").status_code == 412  # it would not wait
    assert _get(none, "timeout=30s", **{"if-version-at-least": "1"}).status_code == 200
    assert time.monotonic() - began_s < 20
