"""The desk's pages in a real browser, by the keyboard alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from desk.flow import service
from desk.letters.selection import Selection
from shared.kafka_access import KafkaAwayError
from tests.desk import browser
from tests.desk.browser import CONTROL, ENTER, SPACE, TAB, Browser
from tests.desk.desk_room import Room
from tests.desk.said import says
from tests.gateway.support import serving

pytestmark = [pytest.mark.stack, browser.needed("THE PAGES ARE")]
CHECKS = (Path(browser.__file__).parent / "checks.js").read_text()
HOSTILE = "</pre><script>document.title='ran'</script><img src=/x onerror=alert(1)>"
PAGES = (
    "/",
    "/?status=any",
    "/redrives",
    "/waiting",
    "/flow",
    "/ledger",
    "/views",
    "/jobs",
    "/jobs/fold",
    "/entities",
    "/webhooks",
    "/credentials",
    "/audit",
    "/login",
)
MENDED = '{"status": "online"}'
_OUTLINE = """
    const here = document.activeElement, style = getComputedStyle(here);
    return [here.outerHTML.slice(0, 80), style.outlineStyle, parseFloat(style.outlineWidth)];
"""


class Visit(NamedTuple):
    room: Room
    browser: Browser
    url: str

    def follow(self, selector: str, text: str, then: str) -> str:
        self.browser.tab_to(selector, text)
        self.browser.press(ENTER)
        return self.browser.until_it_says(then)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as chromium:
        yield chromium


@pytest.fixture
def visit(room: Room, chromium: Browser) -> Iterator[Visit]:
    strange = b'{"status": "%s"}' % HOSTILE.encode()
    room.park(1, strange, cause="wrong_type", topic="ingest.status.v1")
    room.park(2, b"\xff\x00<img src=/y>", cause="<b>not_json", key=b"<i>device")
    for offset in (3, 4):
        room.park(offset, b"{", cause="empty")
    room.index()
    with serving(room.app(), room.gateway_settings()) as served:
        chromium.look_like()
        chromium.open(served.url)
        yield Visit(room, chromium, served.url)
        asked, complaints = chromium.requested(), chromium.complaints()
    asked = [url for url in asked if not url.startswith(("chrome:", "data:"))]  # its first tab
    assert asked
    assert [url for url in asked if not url.startswith(f"{served.url}/")] == []
    assert complaints == []


def test_letters_are_found_tried_mended_and_given_up_by_the_keyboard(visit: Visit) -> None:
    room, chromium = visit.room, visit.browser
    visit.follow("td a", "wrong_type", "All 1 parked letters")
    said = visit.follow("td a[href^='/letters/']", "", "Its bytes")
    assert HOSTILE in said
    assert "00000000  7b 22 73 74" not in said
    visit.follow("summary", "Hex", "00000000  7b 22 73 74")
    assert chromium.run("return document.querySelectorAll('script, img').length") == 0
    assert chromium.run("return document.title") == "Letter · Headrace"

    chromium.tab_to("textarea")
    chromium.press(CONTROL, "a")
    chromium.press(MENDED)
    said = visit.follow("button", "Try", "It would become this event.")
    assert '"status": "online"' in said
    assert "device device-0001: changes" in said
    assert room.sent() == []
    visit.follow("button", "Redrive with these bytes", "It is on its way.")
    assert [value for _, value, _ in room.sent()] == [MENDED.encode()]

    visit.follow("nav a", "Letters", "All 3 parked letters")
    chromium.tab_to("input[name=ids]")
    chromium.press(SPACE)
    visit.follow("button", "Redrive the chosen", "1 sent on, 0 refused.")
    visit.follow("nav a", "Letters", "All 2 parked letters")
    visit.follow("td a", "<b>not_json", "All 1 parked letters")
    chromium.tab_to("input[name=reason]")
    chromium.press("a test device", ENTER)
    chromium.until_it_says("1 discarded.")
    visit.follow("nav a", "Letters", "All 1 parked letters")
    visit.follow("button", "Redrive them all", "running")
    visit.follow("button", "Stop", "stopped")
    said = visit.follow("nav a", "Audit", "a test device")
    assert "redrive changed" in said
    assert "stop redrive" in said


def test_a_credential_is_added_and_revoked_by_the_keyboard(visit: Visit) -> None:
    chromium = visit.browser
    visit.follow("nav a", "Credentials", "Add one")
    chromium.tab_to("input[name=device]")
    chromium.press("d-9", ENTER)
    said = chromium.until_it_says("This is shown once")
    key_id, _, secret = said.partition("Bearer hr_")[2].split()[0].partition("_")
    assert len(secret) == 64
    assert chromium.run(CHECKS) == []
    said = visit.follow("main a", "All credentials", key_id)
    assert secret not in said
    visit.follow("td a", key_id, "Revoke")
    assert chromium.run(CHECKS) == []
    visit.follow("button", "Revoke", "Add one")
    assert key_id not in chromium.text()
    assert f"key {key_id}, device" in visit.follow("nav a", "Audit", "revoke credential")


def test_a_job_is_paused_and_goes_on_by_the_keyboard(visit: Visit) -> None:
    chromium = visit.browser
    chromium.open(f"{visit.url}/")
    visit.follow("nav a", "Jobs", "persist")
    visit.follow("td a", "persist", "Orders")
    chromium.tab_to("input", "")
    chromium.press("the store moves")
    assert "the store moves" in visit.follow("button", "Pause", "pause, by")
    visit.follow("button", "Go on", "ordered\n-")
    assert "persist: the store moves" in visit.follow("nav a", "Audit", "resume job")


def test_the_picture_of_the_flow_keeps_itself_up_to_date_and_the_focus_stays(visit: Visit) -> None:
    chromium = visit.browser
    visit.follow("nav a", "Flow", "event.reading.v1")
    assert "silent" in chromium.text()
    chromium.tab_to("th a", "fold")
    says(visit.room, "fold", state="failed", detail="its code raised")
    chromium.until_it_says("failed")
    assert chromium.run("return document.activeElement.textContent") == "fold"
    assert chromium.run("return document.getElementById('news').textContent") == ""
    partitions = {"event.reading.v1": {"0": [41, 2.0]}}
    says(visit.room, "fold", lag_records=41, lag_s=2.0, partitions=partitions)
    chromium.until_it_says(", 41")
    assert chromium.run("return document.activeElement.textContent") == "fold"
    chromium.press(ENTER)
    chromium.until_it_says("Job fold")


def test_the_picture_comes_back_when_kafka_does(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise KafkaAwayError("Kafka at 127.0.0.1:1 does not answer: it is away")

    chromium = visit.browser
    visit.follow("nav a", "Flow", "event.reading.v1")
    for _ in range(2):
        with monkeypatch.context() as now:
            now.setattr(service, "statuses", away)
            chromium.until_it_says("Nobody can see the flow")
        chromium.until_it_says("event.reading.v1")
    with monkeypatch.context() as now:
        now.setattr(service, "statuses", away)
        chromium.open(f"{visit.url}/flow")
        chromium.until_it_says("Nobody can see the flow")
    chromium.until_it_says("event.reading.v1")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_for_everybody(visit: Visit, scheme: str) -> None:
    chromium, room = visit.browser, visit.room
    letters = [f"/letters/{id_}" for id_ in room.ids(status="parked")[:2]]
    room.book.discard(Selection(cause="empty"), "ann", "a test")
    for width in (1280, 320):
        chromium.look_like(scheme, width)
        for path in (
            "/",
            *letters,
            "/redrives",
            "/waiting",
            "/flow",
            "/ledger",
            "/views",
            "/jobs",
            "/jobs/fold",
            "/entities",
            "/webhooks",
            "/credentials",
            "/audit",
            "/login",
            "/?status=any",
        ):
            chromium.open(f"{visit.url}{path}")
            assert chromium.run(CHECKS) == [], (path, width)


def test_the_focus_is_seen_wherever_it_is(visit: Visit) -> None:
    visit.browser.open(f"{visit.url}/letters/{visit.room.ids(status='parked')[0]}")
    seen: list[str] = []
    while True:
        visit.browser.press(TAB)
        here, style, width = visit.browser.run(_OUTLINE)
        if here.startswith("<body") or here in seen[:1]:
            break
        assert style == "solid", here
        assert width >= 2, here
        seen.append(here)
    assert "Skip to content" in seen[0]
    assert any(here.startswith("<textarea") for here in seen)
