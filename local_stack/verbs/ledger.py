import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.spool.set_aside import in_spool
from local_stack.run.health import health_check
from local_stack.run.operator_token import operator_token
from local_stack.run.options import StateDir, folder_of, since_ms
from local_stack.run.server_addresses import database, running_stack
from local_stack.servers.gateways import node_folders
from local_stack.terminal.errors import LOOK, StackError
from local_stack.terminal.output import Output, OutputOption, rows_table, say_found
from shared.timestamps import from_rfc3339, to_rfc3339

if TYPE_CHECKING:
    from stream_jobs.ledger.tables import LedgerBook, Total

_OLD_S = 10.0
_MISSING_TOLD_MAX = 100


def ledger(
    endpoint: Annotated[str | None, typer.Option(help="Of this endpoint alone.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Payloads of the minutes since: 90s, 15m, 2h, 1d or a time.")
    ] = None,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Show what became of all payloads: each has one end, or is in flight, or is missing.

    Example: ./headrace ledger --since 15m
    """
    found = _found(endpoint, since, state_dir)
    found["set_aside"] = set_aside(folder_of(state_dir))
    say_found(found, "\n".join(lines(found)), output)


def _found(endpoint: str | None, since: str | None, state_dir: StateDir) -> dict[str, Any]:
    from local_stack.machine.settings_check import chosen_flow

    names = [row.name for row in chosen_flow().endpoints]
    if endpoint is not None and endpoint not in names:
        raise StackError(f"there is no endpoint {endpoint!r}", f"endpoints: {', '.join(names)}")
    now_ms = time.time_ns() // 1_000_000
    begin = None if since is None else since_ms(since, now_ms)
    hour_ago = since_ms("1h", now_ms)
    try:
        return from_database(endpoint, begin, hour_ago if begin is None else begin, state_dir)
    except StackError as error:
        if not error.what.startswith("PostgreSQL") or begin is not None:
            raise
        known = from_gateway(endpoint, folder_of(state_dir))
        if known is None:
            raise
        return {**known, "note": error.what}


def lines(found: dict[str, Any]) -> list[str]:
    from shared.published.ledger import ENDS, TERMS

    endpoints = found["endpoints"]
    said = rows_table(endpoints) or ["No payload has come."]
    if len(endpoints) > 1:
        total = {"endpoint": "all", **{term: found[term] for term in TERMS}}
        said = rows_table([*endpoints, total])
    if found["since"]:
        said += ["", *rows_table(found["minutes"])]
    if any(found["derived"].values()):
        ends = ", ".join(f"{found['derived'][e]} {e}" for e in ENDS if found["derived"][e])
        said += ["", f"apart from these, events that came from no payload: {ends}"]
    if found["set_aside"]:
        said += [
            "",
            f"outside these sums, for no ingest topic holds them: {found['set_aside']} payloads "
            "that a gateway's spool has set aside: ./headrace spool list",
        ]
    if found["missing"]:
        said += ["", "payloads that should have an end by now and have none:"]
        said += [f"  {place}" for place in found["missing"]]
    if "note" in found:
        said += ["", f"{found['note']}: what the gateway last heard."]
    if "note" in found or found["age_s"] > _OLD_S:
        said += ["", f"as of {found['as_of']}, {found['age_s']:.0f} s ago"]
    return said


def set_aside(folder: Path) -> int:
    """Payloads that the gateways on this state folder have accepted and Kafka has not."""
    nodes = node_folders(folder).values()
    return sum(kept.payloads() for node in nodes for kept in in_spool(node / "spool"))


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
    from local_stack.machine.settings_check import chosen_flow
    from shared.published.ledger import TERMS, balance

    flow = chosen_flow()
    names = {row.topic: row.stream or row.name for row in flow.endpoints}
    chosen = next((row for row in flow.endpoints if row.name == endpoint), None)

    def wanted(topic: str) -> bool:
        return not chosen or topic == chosen.topic

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
    from shared.published.ledger import TERMS

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
