import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from local_stack import cli
from local_stack.terminal.errors import StackError
from local_stack.verbs import ledger
from local_stack.verbs.ledger import lines
from shared.published.ledger import ENDS, TERMS

NOW_MS = 1_800_000_000_000
WHOLE = {**dict.fromkeys(TERMS, 0), "received": 9, "stored": 6, "duplicate": 3}
FOUND: dict[str, Any] = {
    **WHOLE,
    "as_of": "2027-01-15T08:00:00.000Z",
    "age_s": 0.5,
    "since": None,
    "endpoints": [{"endpoint": "telemetry", **WHOLE}],
    "minutes": [],
    "derived": dict.fromkeys(ENDS, 0),
    "missing": [],
    "set_aside": 0,
}


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("90s", NOW_MS - 90_000),
        ("15m", NOW_MS - 900_000),
        ("2h", NOW_MS - 7_200_000),
        ("1d", NOW_MS - 86_400_000),
        ("2027-01-15T08:00:00Z", NOW_MS),
    ],
)
def test_since_is_a_span_or_a_time(text: str, expected_ms: int) -> None:
    assert ledger.since_ms(text, NOW_MS) == expected_ms


@pytest.mark.parametrize("text", ["", "yesterday", "15", "-1m", "2027-01-15T08:00:00", "1" * 40])
def test_another_since_is_refused_with_what_may_be_written(text: str) -> None:
    with pytest.raises(StackError) as refusal:
        ledger.since_ms(text, NOW_MS)
    assert "15m" in refusal.value.fix


def test_an_endpoint_that_is_none_is_refused_with_those_that_are() -> None:
    error = CliRunner().invoke(cli.app, ["ledger", "--endpoint", "nix"]).exception
    assert isinstance(error, StackError)
    assert error.fix == "endpoints: telemetry, status"


def test_the_table_has_a_row_for_each_endpoint_and_says_what_is_missing() -> None:
    assert lines(FOUND) == [
        "endpoint   received  stored  duplicate  late_duplicate  dropped  waiting  parked  "
        "discarded  in_flight  difference",
        "---------  --------  ------  ---------  --------------  -------  -------  ------  "
        "---------  ---------  ----------",
        "telemetry  9         6       3          0               0        0        0       "
        "0          0          0",
    ]
    lost = {**FOUND, "missing": ["ingest.telemetry.v1/0/7"], "age_s": 60.0, "note": "It is away"}
    assert lines(lost)[4:] == [
        "payloads that should have an end by now and have none:",
        "  ingest.telemetry.v1/0/7",
        "",
        "It is away: what the gateway last heard.",
        "",
        "as of 2027-01-15T08:00:00.000Z, 60 s ago",
    ]


def test_while_postgresql_is_away_it_shows_what_the_gateway_last_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = {
        "asOf": "2027-01-15T08:00:00.000Z",
        "endpoints": {"telemetry": WHOLE, "status": dict.fromkeys(TERMS, 0)},
        "derived": dict.fromkeys(ENDS, 0),
    }
    monkeypatch.setenv("HEADRACE_POSTGRES_URL", "postgresql://headrace@127.0.0.1:1/headrace")
    monkeypatch.setattr(ledger, "running_stack", lambda _: {"gateway_url": "http://127.0.0.1:1"})
    monkeypatch.setattr(ledger, "health_check", lambda *_: check)
    command = ["ledger", "-o", "json", "--state-dir", str(tmp_path)]
    found = json.loads(CliRunner().invoke(cli.app, command).output)
    assert {term: found[term] for term in TERMS} == WHOLE
    assert (found["as_of"], found["minutes"]) == (check["asOf"], [])
    assert "PostgreSQL cannot do it now" in found["note"]


def test_without_postgresql_and_without_the_gateway_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_POSTGRES_URL", "postgresql://headrace@127.0.0.1:1/headrace")
    monkeypatch.setattr(ledger, "running_stack", lambda _: {"gateway_url": "http://127.0.0.1:1"})
    result = CliRunner().invoke(cli.app, ["ledger", "--state-dir", str(tmp_path)])
    assert isinstance(result.exception, StackError)
    assert "PostgreSQL cannot do it now" in result.exception.what


def test_what_is_set_aside_stands_outside_the_sums_and_says_where_to_look() -> None:
    said = lines({**FOUND, "set_aside": 2})
    assert said[:3] == lines(FOUND)[:3]
    assert "outside these sums" in said[4]
    assert "2 payloads" in said[4]
    assert "./headrace spool list" in said[4]
