"""The ledger's page as its tree."""

from typing import Any

from desk.pages.ledger import told_of
from desk.web.shell import shell
from shared.published.ledger import ENDS, TERMS
from tests.desk.dom import Element, read


def _found(**its: Any) -> dict[str, Any]:
    none = dict.fromkeys(TERMS, 0)
    a = {"endpoint": "telemetry", **none, "received": 1200, "stored": 1190, "in_flight": 10}
    b = {"endpoint": "<b>", **none, "received": 2, "parked": 2}
    return {
        "as_of": "2026-11-29T05:00:00Z",
        "detail": "",
        "old": False,
        **none,
        "received": 1202,
        "in_flight": 10,
        "endpoints": [a, b],
        "derived": dict.fromkeys(ENDS, 0),
        "missing": [],
        "recounting": 0,
        **its,
    }


def _page(found: dict[str, Any] | None) -> Element:
    return read(shell("Ledger", *told_of(found), csrf="t"))


def test_each_endpoint_has_its_sums_and_all_have_theirs() -> None:
    page = _page(_found())
    rows = [[cell.text for cell in row.all("td")] for row in page.all("tr")]
    assert [row[:3] for row in rows if row] == [
        ["telemetry", "1,200", "1,190"],
        ["<b>", "2", "0"],
        ["all", "1,202", "0"],
    ]
    assert "Each of 1,202 payloads has its end, but for 10 in flight." in page.text


def test_what_is_missing_is_said_first_and_where_it_was() -> None:
    page = _page(_found(difference=2, missing=["ingest.telemetry.v1/0/7"]))
    (wrong,) = (p.text for p in page.all("p") if p.attributes.get("class") == "wrong")
    assert wrong.startswith("2 payloads should have an end by now")
    assert "ingest.telemetry.v1/0/7" in page.text


def test_old_sums_say_so_and_none_too() -> None:
    derived = {**dict.fromkeys(ENDS, 0), "stored": 5}
    page = _page(_found(detail="PostgreSQL is away", old=True, recounting=3, derived=derived))
    wrong = [p.text for p in page.all("p") if p.attributes.get("class") == "wrong"]
    assert wrong == [
        "3 entities have counted a repeat twice, and are being folded anew.",
        "As of 2026-11-29T05:00:00Z: PostgreSQL is away.",
    ]
    assert "2 ends are of no payload" in _page(_found(difference=-2)).text
    assert "stored5" in page.text
    assert "has not said a word" in _page(None).text
