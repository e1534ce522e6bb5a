"""What became of all payloads, as PostgreSQL has it or, while that is away, as the gateway last
heard it."""

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local_stack.machine.settings_check import chosen_flow
from local_stack.run.health import health_check
from local_stack.run.operator_token import operator_token
from local_stack.run.reach import database, running_stack
from local_stack.terminal.errors import LOOK, StackError
from shared.published.ledger import TERMS, balance
from shared.timestamps import from_rfc3339, to_rfc3339

if TYPE_CHECKING:
    from stream_jobs.ledger.tables import LedgerBook, Total

_MISSING_TOLD_MAX = 100
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def set_aside(folder: Path) -> int:
    """Payloads that the gateway on this state folder has accepted and Kafka has not."""
    from gateway.spool.set_aside import in_spool

    return sum(kept.payloads() for kept in in_spool(folder / "spool"))


def since_ms(text: str, now_ms: int, option: str = "--since") -> int:
    """`15m` ago, or an RFC 3339 time."""
    try:
        if ago := re.fullmatch(r"(\d{1,6})([smhd])", text):
            return now_ms - int(ago[1]) * _UNIT_S[ago[2]] * 1000
        return from_rfc3339(text)
    except (ValueError, OverflowError) as error:
        raise StackError(
            f"{option} {text}: {error}", "write 90s, 15m, 2h, 1d or 2026-11-21T12:00:00Z"
        ) from error


def from_database(
    endpoint: str | None, since: int | None, minutes_since: int, state_dir: Path | None
) -> dict[str, Any]:
    from stream_jobs.ledger.tables import LedgerBook

    with database(state_dir, "ledger") as connection:
        book = LedgerBook(connection)
        as_of_ms = book.as_of_ms()
        if as_of_ms is None:
            raise StackError("the ledger was not kept yet: the relay's process does that", LOOK)
        return _document(book, as_of_ms, endpoint, since, minutes_since)


def _document(
    book: "LedgerBook", as_of_ms: int, endpoint: str | None, since: int | None, minutes_since: int
) -> dict[str, Any]:
    names = {row.topic: row.name for row in chosen_flow().endpoints}

    def wanted(topic: str) -> bool:
        return endpoint is None or names.get(topic, topic) == endpoint

    minutes = [
        (names.get(topic, topic), minute, total)
        for topic, minute, total in book.minutes(minutes_since // 60_000)
        if wanted(topic)
    ]
    if since is None:
        totals = {names.get(t, t): total for t, total in book.totals().items() if wanted(t)}
    else:
        totals = _summed([(name, total) for name, _, total in minutes])
    found = [{"endpoint": name, **balance(*total)} for name, total in totals.items()]
    whole = not any(row["difference"] for row in found)
    missing = [] if whole else book.missing(_MISSING_TOLD_MAX)
    return {
        **{term: sum(row[term] for row in found) for term in TERMS},
        **_age(as_of_ms),
        "since": None if since is None else to_rfc3339(since),
        "endpoints": found,
        "minutes": [
            {"minute": to_rfc3339(minute * 60_000), "endpoint": name, **balance(*total)}
            for name, minute, total in minutes
        ],
        "derived": book.derived(),
        "missing": [str(place) for place in missing if wanted(place.topic)],
    }


def _summed(rows: "list[tuple[str, Total]]") -> "dict[str, Total]":
    sums: dict[str, Total] = {}
    for name, total in rows:
        known = sums.get(name)
        sums[name] = total if known is None else known.plus(total)
    return sums


def from_gateway(endpoint: str | None, folder: Path) -> dict[str, Any] | None:
    """Its totals alone, as old as they are; None where it knows none."""
    url = running_stack(folder)["gateway_url"]
    check = health_check(url, "ledger:difference", operator_token(folder)) if url else None
    if check is None or "asOf" not in check:
        return None
    found = [
        {"endpoint": name, **terms}
        for name, terms in check["endpoints"].items()
        if endpoint in (None, name)
    ]
    return {
        **{term: sum(row[term] for row in found) for term in TERMS},
        **_age(from_rfc3339(check["asOf"])),
        "since": None,
        "endpoints": found,
        "minutes": [],
        "derived": check["derived"],
        "missing": [],
    }


def _age(as_of_ms: int) -> dict[str, Any]:
    age_s = max(0.0, time.time() - as_of_ms / 1000)
    return {"as_of": to_rfc3339(as_of_ms), "age_s": round(age_s, 1)}
