import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from gateway.state_view.records import Row
from gateway.state_view.store import ViewStore
from shared.timestamps import now_ms
from tests.gateway.support import Gateway

TOPIC = "state.device.v1"
Put = Callable[[Row], None]


@pytest.fixture
def warm(store: ViewStore) -> None:
    store.begin_topic(TOPIC, "an id")
    store.caught_up([TOPIC], now_ms())


def test_a_view_that_is_not_there_yet_is_warming(gateway: Gateway) -> None:
    answer = gateway.ask("GET", "/state/device-0001")
    assert (answer.status_code, answer.json()["code"]) == (503, "warming")
    assert answer.headers["retry-after"] == "1"


def test_a_view_that_has_not_caught_up_yet_is_warming(
    gateway: Gateway, store: ViewStore, put: Put
) -> None:
    store.begin_topic(TOPIC, "an id")
    put(_row(1))
    assert gateway.ask("GET", "/state/device-0001").json()["code"] == "warming"


@pytest.mark.usefixtures("warm")
def test_a_state_is_shown_with_its_version_times_and_age(gateway: Gateway, put: Put) -> None:
    put(_row(7, {"count": 3}, event_time_ms=1_700_000_000_123))

    answer = gateway.ask("GET", "/state/device-0001")
    assert answer.status_code == 200
    shown = answer.json()
    assert shown.pop("pipeline_lag_s") is None
    assert (shown.pop("stale"), shown.pop("stale_because")) == (
        True,
        "enrich has given no sign of life yet",
    )
    assert 5_000 <= shown.pop("age_ms") < 60_000
    assert shown.pop("view").keys() == {"caught_up_at", "lag_ms"}
    assert shown.pop("updated_at").endswith("Z")
    assert shown == {
        "entity": "device",
        "id": "device-0001",
        "version": 7,
        "event_time": "2023-11-14T22:13:20.123Z",
        "state": {"count": 3},
    }
    assert gateway.ask("GET", "/state/device/device-0001").json()["state"] == {"count": 3}


@pytest.mark.usefixtures("warm")
def test_the_snapshot_s_own_facts_are_shown_on_request(gateway: Gateway, put: Put) -> None:
    put(_row(7))
    shown = gateway.ask("GET", "/state/device-0001?meta=true").json()
    assert shown["_meta"]["fold"] == "abc"


@pytest.mark.usefixtures("warm")
def test_the_same_version_is_not_sent_twice(gateway: Gateway, put: Put) -> None:
    put(_row(7))
    tag = gateway.ask("GET", "/state/device-0001").headers["etag"]

    for match in (tag, f'"x", {tag}', tag.removeprefix("W/"), "*"):
        again = gateway.ask("GET", "/state/device-0001", headers={"if-none-match": match})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)

    put(_row(8, offset=1))
    newer = gateway.ask("GET", "/state/device-0001", headers={"if-none-match": tag})
    assert (newer.status_code, newer.json()["version"]) == (200, 8)


@pytest.mark.usefixtures("warm")
def test_a_state_behind_jobs_that_keep_up_is_not_stale(gateway: Gateway, put: Put) -> None:
    put(_row(7))
    _say(put, enrich={"lag_s": 0.5}, fold={"lag_s": 0.25})
    shown = gateway.ask("GET", "/state/device-0001").json()
    assert shown["stale"] is False
    assert 0.75 <= shown["pipeline_lag_s"] < 5
    assert "stale_because" not in shown


@pytest.mark.usefixtures("warm")
def test_with_fold_stopped_for_an_hour_it_says_so(gateway: Gateway, put: Put) -> None:
    put(_row(7))
    hour = {"lag_s": 3600.0, "lag_records": 9}
    _say(put, enrich={"lag_s": 0.0}, fold=hour)
    shown = gateway.ask("GET", "/state/device-0001").json()
    assert (shown["stale"], shown["stale_because"]) == (True, "fold is 3600 s behind")
    assert 3600 <= shown["pipeline_lag_s"] < 3605


@pytest.mark.usefixtures("warm")
def test_the_lag_of_a_job_that_has_died_grows(gateway: Gateway, put: Put) -> None:
    put(_row(7))
    _say(put, enrich={"lag_s": 0.0}, fold={"lag_s": 0.0, "at_ms": now_ms() - 3_600_000})
    shown = gateway.ask("GET", "/state/device-0001").json()
    assert (shown["stale"], shown["stale_because"]) == (
        True,
        "fold has given no sign of life for 3600 s",
    )
    assert 3600 <= shown["pipeline_lag_s"] < 3605


@pytest.mark.usefixtures("warm")
def test_who_asks_for_what_is_newer_hears_that_it_has_become_stale(
    gateway: Gateway, put: Put
) -> None:
    put(_row(7))
    _say(put, enrich={}, fold={})
    tag = gateway.ask("GET", "/state/device-0001").headers["etag"]
    time.sleep(0.6)  # until it looks again
    _say(put, enrich={}, fold={"state": "failed"})
    asked = {"if-none-match": tag}
    answer = gateway.ask("GET", "/state/device-0001", headers=asked)
    assert (answer.status_code, answer.json()["stale"]) == (200, True)
    asked = {"if-none-match": answer.headers["etag"]}
    assert gateway.ask("GET", "/state/device-0001", headers=asked).status_code == 304


@pytest.mark.usefixtures("warm")
def test_an_unknown_id_may_be_one_that_has_not_come_through_yet(gateway: Gateway, put: Put) -> None:
    _say(put, enrich={}, fold={"state": "failed"})
    detail = gateway.ask("GET", "/state/device-0002").json()["detail"]
    assert "ask again later: fold is failed" in detail


@pytest.mark.usefixtures("warm")
def test_an_unknown_id_is_told_what_to_do(gateway: Gateway) -> None:
    answer = gateway.ask("GET", "/state/device-0001")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_id")
    assert "POST" in answer.json()["detail"]


def test_of_an_aggregate_nobody_is_told_to_post_one(gateway: Gateway, store: ViewStore) -> None:
    store.begin_topic("state.area.v1", "an id")
    store.caught_up(["state.area.v1"], now_ms())
    answer = gateway.ask("GET", "/state/area/area-99")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_id")
    assert "the first device that counts for it" in answer.json()["detail"]


@pytest.mark.usefixtures("warm")
def test_an_unknown_entity_is_told_which_there_are(gateway: Gateway) -> None:
    answer = gateway.ask("GET", "/state/plane/device-0001")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_entity")
    assert "device" in answer.json()["detail"]


@pytest.mark.usefixtures("warm")
def test_a_deleted_entity_is_not_found_as_deleted(gateway: Gateway, put: Put) -> None:
    put(_row(9, deleted=True))
    answer = gateway.ask("GET", "/state/device-0001")
    assert (answer.status_code, answer.json()["code"]) == (404, "deleted")


@pytest.mark.usefixtures("warm")
def test_an_older_version_changes_nothing(gateway: Gateway, put: Put) -> None:
    put(_row(9, offset=5))
    put(_row(8, offset=6))
    assert gateway.ask("GET", "/state/device-0001").json()["version"] == 9


def _row(version: int, state: dict[str, Any] | None = None, offset: int = 0, **meta: Any) -> Row:
    value = {
        **(state or {}),
        "_meta": {"version": version, "event_time_ms": None, "fold": "abc", **meta},
    }
    encoded = json.dumps(value).encode()
    return Row(TOPIC, b"device-0001", encoded, version, now_ms() - 5_000, 0, offset)


def _say(put: Put, **jobs: Any) -> None:
    for job, status in jobs.items():
        said = {"state": "running", "lag_s": 0.0, "lag_records": 0, "at_ms": now_ms(), **status}
        value = json.dumps(said).encode()
        put(Row("job.status.v1", job.encode(), value, None, now_ms(), 0, 0))
