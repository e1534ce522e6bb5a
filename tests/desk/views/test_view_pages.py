"""The views' pages, on rows in the gateway's copy as the jobs write them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from desk.pages.views import view_pages
from desk.views import service
from desk.views.service import ViewDesk
from gateway.http.problems import HANDLERS
from gateway.monitor.job_status import JobStatus
from gateway.state_view.store import ViewStore, view_path
from shared.settings import GatewaySettings
from tests.desk import dom
from tests.gateway.views.support import HOT, Rows


@pytest.fixture
def settings(tmp_path: Path) -> GatewaySettings:
    return GatewaySettings(state_dir=tmp_path, flow="tests.stream_jobs.views_flow:FLOW")


@pytest.fixture
def rows(settings: GatewaySettings) -> Iterator[Rows]:
    store = ViewStore(view_path(settings.state_dir))
    yield Rows(store)
    store.close()


def asked(settings: GatewaySettings, path: str) -> httpx.Response:
    app = FastAPI(exception_handlers=HANDLERS)
    app.include_router(view_pages(ViewDesk(settings)))

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            return await http.get(path)

    return asyncio.run(ask())


def cells(answer: httpx.Response) -> list[list[str]]:
    assert answer.status_code == 200, answer.text
    found = ([cell.text for cell in row.all("td")] for row in dom.read(answer.text).all("tr"))
    return [row for row in found if row]


def test_each_is_listed_with_its_rows_and_how_far_it_is(
    settings: GatewaySettings, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.window("north", 0, readings=3)
    of_view = {"watermark_ms": 1_800_000_000_000, "late": 2, "corrections": 1}
    word = {"state": "running", "lag_s": 4.2, "lag_records": 1, "view": of_view}
    said = {"view_by_area": JobStatus(word, 0), "view_hot": JobStatus(word, 60_000)}
    monkeypatch.setattr(service, "statuses", lambda *_: said)
    listed = {row[0]: row[1:] for row in cells(asked(settings, "/views"))}
    assert listed["by_area"][:7] == [
        "1",
        "running",
        "1",
        "4 s",
        "2027-01-15T08:00:00.000Z",
        "2",
        "1",
    ]
    assert listed["hot"][1] == "silent"
    assert listed["totals"][1] == "silent"


def test_its_rows_are_found_by_key_sorted_and_page_by_page(
    settings: GatewaySettings, rows: Rows
) -> None:
    for number in range(3):
        rows.window("north", number, readings=number)
    rows.window("<b>south", 0, readings=9)
    found = cells(asked(settings, "/views/by_area?area=north&sort=-readings&version="))
    assert [row[-1] for row in found] == ["2", "1", "0"]
    page, seen = asked(settings, "/views/by_area?limit=3"), []
    while True:
        seen += cells(page)
        more = [a for a in dom.read(page.text).all("a") if a.text == "Further rows"]
        if not more:
            break
        page = asked(settings, str(more[0].attributes["href"]))
    assert [row[2] for row in seen] == ["<b>south", "north", "north", "north"]


def test_what_cannot_be_is_a_sentence(settings: GatewaySettings, rows: Rows) -> None:
    rows.put(HOT, {"event_id": "e"}, value=91.0)
    assert asked(settings, "/views/nobody").status_code == 404
    assert asked(settings, "/views/hot?colour=red").status_code == 400
    assert asked(settings, "/views/hot?sort=colour").status_code == 400
    assert cells(asked(settings, "/views/hot")) == [["e", "91.0"]]


def test_before_the_gateway_has_read_them_the_page_says_so(settings: GatewaySettings) -> None:
    answer = asked(settings, "/views/hot")
    assert answer.status_code == 200
    assert "still reading" in answer.text
