"""The flow at the desk, on a real broker and PostgreSQL. No job runs here."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import httpx
import pytest
from pydantic import SecretStr

from clients.kafka.records import Outgoing
from clients.kafka.write import write_now
from desk.flow import service
from desk.flow.service import FlowDesk
from desk.flow.shared_look import SharedLook
from desk.letters.store import open_book
from shared.kafka_access import KafkaAwayError
from tests.desk import dom
from tests.desk.desk_room import Room
from tests.desk.said import says

pytestmark = pytest.mark.stack
EVENTS = "event.status_changed.v1"


def test_who_is_behind_on_which_topic_and_how_fast_they_come(room: Room) -> None:
    room.park(1)
    room.index()

    async def steps(http: httpx.AsyncClient) -> None:
        partitions = {EVENTS: {"0": [5, 3.25], "1": [7, 1.0]}}
        says(room, "fold", lag_records=12, lag_s=3.25, rows_per_s=80.5, partitions=partitions)
        lanes = {"retry.enrich.v1": {"payloads": 4}}
        says(room, "retry", state="waiting", detail="why", lag_records=0, lag_s=0.0, lanes=lanes)
        for number in range(6):
            write_now(room.settings.kafka, Outgoing(EVENTS, b"d-%d" % number, b"{}", []))
        told = (await http.get("/api/flow")).json()
        parts = {one["part"]: one for one in told["parts"]}
        assert (parts["fold"]["state"], parts["fold"]["rows_per_s"]) == ("running", 80.5)
        assert parts["retry"] | {"does": ""} == {
            "part": "retry",
            "does": "",
            "state": "waiting",
            "detail": "why",
            "rows_per_s": None,
            "waiting": 4,
        }
        assert parts["forward"]["state"] == "silent"
        (events,) = (one for one in told["arrows"] if EVENTS in one["topics"])
        assert events["written_by"] == ["enrich", "retry"]
        assert 0.1 <= events["per_s"] < 2
        readers = {one.pop("part"): one for one in events["read_by"]}
        assert readers["fold"]["behind_records"] == 12
        assert 3.2 <= readers["fold"]["behind_s"] < 10
        assert readers["forward"] == {"behind_records": None, "behind_s": None}
        assert told["parked"]["enrich"] == 1
        assert told["health"]["status"] is None  # there is no gateway here

    room.ask(steps, desk_health_url="http://127.0.0.1:1/health")


def test_the_page_has_a_script_and_no_other_has(room: Room) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        page = await http.get("/flow")
        assert page.status_code == 200
        told = dom.read(page.text).text
        assert "Nobody knows: the gateway, http://127.0.0.1:1/health, does not answer" in told
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert (await http.get("/live.js")).headers["content-type"].startswith("text/javascript")
        for other in ("/", "/jobs", "/flow/", "/live.js", "/api/flow"):
            answer = await http.get(other)
            assert "script-src" not in answer.headers["content-security-policy"], other
            assert "<script" not in answer.text

    room.ask(steps, desk_health_url="http://127.0.0.1:1/health")


def test_without_postgresql_all_but_the_letters_is_known(room: Room) -> None:
    away = SecretStr("postgresql://nobody@127.0.0.1:1/none")
    settings = room.gateway_settings().model_copy(update={"postgres_url": away})
    found = FlowDesk(settings, lambda: open_book(settings)).now()
    assert found["parked"] is None
    assert found["arrows"]


def test_without_kafka_the_page_says_so_and_what_health_says(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise KafkaAwayError("Kafka at 127.0.0.1:1 does not answer: it is away")

    monkeypatch.setattr(service, "statuses", away)

    async def steps(http: httpx.AsyncClient) -> None:
        page = await http.get("/flow")
        assert page.status_code == 200
        assert "Nobody can see the flow: Kafka at 127.0.0.1:1" in page.text
        assert "What is wrong" in page.text
        assert (await http.get("/api/flow")).status_code == 503

    room.ask(steps)


def test_while_kafka_is_away_nobody_waits_for_more_than_one_look(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def away(*_: object) -> None:
        looks.append(1)
        time.sleep(0.5)
        raise KafkaAwayError("away")

    monkeypatch.setattr(service, "statuses", away)
    settings = room.gateway_settings()
    flow = FlowDesk(settings, lambda: open_book(settings))

    def look(_: int) -> None:
        with pytest.raises(KafkaAwayError):
            flow.now()

    with ThreadPoolExecutor(8) as pool:
        all(pool.map(look, range(8)))
    assert len(looks) == 1


def test_who_looks_at_the_same_time_sees_the_same(room: Room) -> None:
    settings = room.gateway_settings()
    flow = FlowDesk(settings, lambda: open_book(settings))
    assert flow.now() == flow.now()


def test_a_look_that_hangs_keeps_nobody_waiting_and_is_seen_once_it_is_back() -> None:
    goes_on = Event()

    def hangs() -> str:
        goes_on.wait(10)
        return "seen"

    look = SharedLook(hangs, within_s=0.05, kept_s=60.0)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            look.get()
    goes_on.set()
    time.sleep(0.2)
    assert look.get() == "seen"


def test_who_would_wait_for_a_slow_look_sees_the_last_one() -> None:
    looks = iter(("first", "second", "second"))
    goes_on = Event()

    def slow() -> str:
        found = next(looks)
        if found == "second":
            goes_on.wait(10)
        return found

    look = SharedLook(slow, within_s=0.5, kept_s=0.0)
    assert look.get() == "first"
    time.sleep(0.01)
    assert look.get() == "first"
    goes_on.set()
    time.sleep(0.2)
    assert look.get() == "second"
