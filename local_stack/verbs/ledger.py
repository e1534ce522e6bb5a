import time
from typing import Annotated, Any

import typer

from local_stack.run.options import StateDir, folder_of
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, say_json, table
from local_stack.terminal.progress import say

_OLD_S = 10.0


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
    from local_stack.operate.ledger import set_aside

    found = _found(endpoint, since, state_dir)
    found["set_aside"] = set_aside(folder_of(state_dir))
    if output is Output.JSON:
        say_json(found)
    else:
        say("\n".join(lines(found)))


def _found(endpoint: str | None, since: str | None, state_dir: StateDir) -> dict[str, Any]:
    from local_stack.machine.settings_check import chosen_flow
    from local_stack.operate.ledger import from_database, from_gateway, since_ms

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

    def shown(rows: list[dict[str, Any]]) -> list[str]:
        return table([*rows[0]], [[*row.values()] for row in rows]) if rows else []

    endpoints = found["endpoints"]
    said = shown(endpoints) or ["No payload has come."]
    if len(endpoints) > 1:
        total = {"endpoint": "all", **{term: found[term] for term in TERMS}}
        said = shown([*endpoints, total])
    if found["since"]:
        said += ["", *shown(found["minutes"])]
    if any(found["derived"].values()):
        ends = ", ".join(f"{found['derived'][e]} {e}" for e in ENDS if found["derived"][e])
        said += ["", f"apart from these, events that came from no payload: {ends}"]
    if found["set_aside"]:
        said += [
            "",
            f"outside these sums, for no ingest topic holds them: {found['set_aside']} payloads "
            "that this node's spool has set aside: ./headrace spool list",
        ]
    if found["missing"]:
        said += ["", "payloads that should have an end by now and have none:"]
        said += [f"  {place}" for place in found["missing"]]
    if "note" in found:
        said += ["", f"{found['note']}: what the gateway last heard."]
    if "note" in found or found["age_s"] > _OLD_S:
        said += ["", f"as of {found['as_of']}, {found['age_s']:.0f} s ago"]
    return said
