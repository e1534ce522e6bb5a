import json
from typing import Any

import pytest

from gateway.monitor import ledger_check
from shared.published.ledger import ENDS, TERMS

NOW_MS = 1_800_000_000_000


def said(age_ms: int = 500, detail: str = "", **terms: int) -> bytes:
    ledger = {
        "as_of_ms": NOW_MS - age_ms,
        "endpoints": {
            "telemetry": {**dict.fromkeys(TERMS, 0), "received": 9, "stored": 7, **terms},
            "status": dict.fromkeys(TERMS, 0),
        },
        "derived": dict.fromkeys(ENDS, 0),
        "missing": ["ingest.telemetry.v1/3/17"] if terms.get("difference") else [],
    }
    return json.dumps({"detail": detail, "ledger": ledger}).encode()


def test_a_ledger_that_balances_is_well() -> None:
    check = ledger_check.check(said(in_flight=2), NOW_MS)
    assert (check["status"], check["observedValue"], check["ageSeconds"]) == ("pass", 0, 0.5)
    assert check["endpoints"]["telemetry"]["in_flight"] == 2
    assert "output" not in check


def test_a_difference_is_a_warning_that_names_the_first_place() -> None:
    check = ledger_check.check(said(difference=2), NOW_MS)
    assert (check["status"], check["observedValue"]) == ("warn", 2)
    assert "ingest.telemetry.v1/3/17" in check["output"]


def test_a_repeat_that_a_state_counted_is_a_warning_until_it_is_folded_anew() -> None:
    status = json.loads(said(late_duplicate=2))
    status["ledger"]["recounting"] = 1
    check = ledger_check.check(json.dumps(status).encode(), NOW_MS)
    assert (check["status"], check["recounting"]) == ("warn", 1)
    assert "late_duplicate" in check["output"]


def test_old_numbers_stay_with_their_age_and_with_what_is_away() -> None:
    check = ledger_check.check(said(60_000, "PostgreSQL: refused"), NOW_MS)
    assert (check["status"], check["observedValue"]) == ("warn", 0)
    assert check["output"] == "as of 60 s ago: PostgreSQL: refused"


@pytest.mark.parametrize(
    "nothing", [None, b"", b"[]", b'{"ledger": 1}', b'{"ledger": {"as_of_ms": 1}}']
)
def test_what_cannot_be_read_is_no_number(nothing: bytes | None) -> None:
    assert ledger_check.check(nothing, NOW_MS)["status"] == "warn"
    assert samples(nothing) == {}


def test_every_term_is_a_gauge_by_endpoint() -> None:
    found = samples(said(difference=2))
    assert found["headrace_ledger_payloads", "telemetry", "received"] == 9
    assert found["headrace_ledger_payloads", "telemetry", "stored"] == 7
    assert found["headrace_ledger_difference", "telemetry"] == 2
    assert found["headrace_ledger_difference", "status"] == 0
    assert found["headrace_ledger_age_seconds",] == 0.5


def samples(status: bytes | None) -> dict[tuple[str, ...], Any]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in ledger_check.metrics(status, NOW_MS)
        for sample in family.samples
    }
