"""The picture of the flow as its tree."""

from typing import Any

from desk.flow.health import Health, Trouble
from desk.pages.flow import picture, troubles
from desk.web.shell import shell
from tests.desk.dom import Element, read

HOSTILE = "</table><script>alert(1)</script>\"'"


def _part(name: str, **told: Any) -> dict[str, Any]:
    none = {"state": "running", "detail": HOSTILE, "rows_per_s": None, "waiting": None}
    return {"part": name, "does": HOSTILE, **none, **told}


def _now() -> dict[str, Any]:
    late = {"part": "fold", "behind_records": 1234, "behind_s": 61.0}
    silent = {"part": "persist", "behind_records": None, "behind_s": None}
    return {
        "at": "2026-11-29T05:00:00Z",
        "parts": [
            _part("gateway", state=None),
            _part("enrich", rows_per_s=12.34, waiting=7),
            _part("fold", state="failed"),
            _part("persist", state=HOSTILE),
        ],
        "arrows": [
            {
                "topics": (HOSTILE, "event.b.v1"),
                "per_s": 1234.5,
                "written_by": ("enrich",),
                "read_by": [late, silent],
            },
        ],
        "parked": {"enrich": 3},
    }


def _page(now: dict[str, Any], late_s: float = 60.0) -> Element:
    return read(shell("Flow", *picture(now, late_s), csrf="t", script="/live.js"))


def test_a_line_goes_from_who_writes_to_who_reads_and_says_who_is_late() -> None:
    line = next(row for row in _page(_now()).all("tr") if "event.b.v1" in row.text)
    gateway, enrich, fold, persist = line.all("td")
    assert [cell.attributes.get("class") for cell in (gateway, enrich, fold, persist)] == [
        *(None, "on first", "on", "on last")
    ]
    assert next(enrich.all("b")).attributes["aria-label"] == "writes"
    assert "61 s, 1,234" in fold.text
    assert next(fold.all("span")).attributes["class"] == "off"
    assert "?" in persist.text
    assert "1,234 a second" in line.text
    resting = {"part": "enrich", "behind_records": None, "behind_s": None}
    rests = _now()
    rests["arrows"][0] |= {"written_by": ("gateway",), "read_by": [resting]}
    line = next(row for row in _page(rests).all("tr") if "event.b.v1" in row.text)
    assert [cell.text for cell in line.all("td")][1] == "▶-"
    line = next(row for row in _page(_now(), late_s=62).all("tr") if "event.b.v1" in row.text)
    assert "off" not in [span.attributes.get("class") for span in line.all("span")]


def test_what_waits_and_what_is_parked_leads_there() -> None:
    links = {one.attributes["href"]: one.text for one in _page(_now()).all("a")}
    assert (links["/waiting"], links["/?stage=enrich"]) == ("7", "3")
    assert links["/jobs/fold"] == "fold"
    assert "/jobs/gateway" not in links
    page = _page({**_now(), "parked": None})
    assert "PostgreSQL is away" in page.text


def test_a_job_that_does_not_work_is_seen_in_its_column() -> None:
    head = next(_page(_now()).all("thead"))
    off = [span.text for span in head.all("span") if span.attributes.get("class") == "off"]
    assert off == ["failed", HOSTILE]


def test_nothing_that_somebody_sent_is_html() -> None:
    wrong = Health("warn", (Trouble(HOSTILE, "warn", HOSTILE),), 3)
    content = [*troubles(wrong), *picture(_now(), 1.0)]
    page = read(shell("Flow", *content, csrf="t", script="/live.js"))
    assert [one.attributes for one in page.all("script")] == [{"src": "/live.js", "defer": None}]
    assert not [one for one in page.all() if "style" in one.attributes]


def test_what_is_wrong_is_said_or_that_nothing_is_or_that_nobody_knows() -> None:
    def said(health: Health) -> str:
        return read(shell("Flow", *troubles(health), csrf="t")).text

    assert "all 9 checks" in said(Health("pass", (), 9))
    assert "Nobody knows: gone" in said(Health(None, unknown="gone"))
    wrong = said(Health("warn", (Trouble("job:fold", "warn", "paused"),), 9))
    assert "job:fold" in wrong
    assert "paused" in wrong
    assert "What follows" not in wrong


def test_jobs_that_are_silent_are_one_line_and_relay_another() -> None:
    def silent(name: str, seconds: int) -> Trouble:
        since = f"12:00:0{9 - seconds}"
        return Trouble(name, "warn", f"no sign of life for {seconds} s", since=since)

    lanes = [Trouble(f"lane:{n}", "warn", f"{n} records") for n in (1, 9)]
    wrong = (lanes[0], silent("job:a", 7), lanes[1], silent("job:relay", 7), silent("job:b", 8))
    page = read(shell("Flow", *troubles(Health("warn", wrong, 9)), csrf="t"))
    rows = [[cell.text for cell in row.all("td")] for row in page.all("tr")][1:]
    assert [row[0] for row in rows] == ["lane:1", "job:a, job:b", "lane:9", "job:relay"]
    assert [row[2] for row in rows] == ["-", "12:00:01", "-", "12:00:02"]
    assert rows[1][3].startswith("no sign of life for 7 s: look at a process that they share")


def test_a_cause_leads_to_the_page_that_has_more() -> None:
    checks = ("letters:parked", "job:fold", "job:relay", "lane:dlq.x.v1", "kafka:connection")
    health = Health("warn", tuple(Trouble(one, "warn", "is so") for one in checks), 9)
    page = read(shell("Flow", *troubles(health), csrf="t"))
    led = {one.text: one.attributes["href"] for one in page.all("a") if one.text in checks}
    jobs = {f"job:{name}": f"/jobs/{name}" for name in ("fold", "relay")}
    assert led == {"letters:parked": "/", **jobs, "lane:dlq.x.v1": "/"}


def test_a_cause_stands_before_what_follows_from_it_which_is_behind_a_click() -> None:
    cause, follows = Trouble("store", "fail", "away"), Trouble("job:fold", "warn", "old", "store")
    health = Health("fail", (cause, follows), 9, refused="7 payloads: 7 unauthenticated")
    page = read(shell("Flow", *troubles(health), csrf="t"))
    tables = {str(one.attributes.get("aria-label")): one for one in page.all("div")}
    assert "job:fold" not in tables["What is wrong"].text
    assert tables["What follows from it"].within("details")
    assert "job:fold" in tables["What follows from it"].text
    assert "7 unauthenticated" in page.text
