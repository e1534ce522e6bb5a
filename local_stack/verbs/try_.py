"""`./headrace try`: what would become of a payload, if a device sent it now."""

from pathlib import Path
from typing import Annotated, Any

import typer

from local_stack.letters.letter_bytes import bytes_of
from local_stack.run.desks import trials
from local_stack.run.options import StateDir
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, json_lines, say_json
from local_stack.terminal.printable import printable
from local_stack.terminal.progress import say

Headers = Annotated[
    list[str] | None, typer.Option("--header", "-H", help="As the device sends it: 'name: value'.")
]


def try_(
    endpoint: str,
    entity: str,
    file: Annotated[Path, typer.Argument(help="Its bytes; -: stdin.")] = Path("-"),
    header: Headers = None,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """What would become of a payload: decoded, its events, the states after. Nothing is written.

    Example: ./headrace try telemetry device-0001 reading.json
    """
    headers = dict(map(_header, header or []))
    with trials(state_dir) as tried:
        found = tried(endpoint, entity, headers, bytes_of(file))
    if output is Output.JSON:
        say_json(found)
        return
    say("\n".join(map(printable, _lines(found))))


def _header(given: str) -> tuple[bytes, bytes]:
    name, colon, value = given.partition(":")
    if not colon:
        raise StackError(f"--header {given!r} has no colon", "write 'content-type: text/csv'")
    return name.strip().lower().encode(), value.strip().encode()


def _lines(found: dict[str, Any]) -> list[str]:
    why = ": ".join(filter(None, (found["cause"], found["detail"])))
    count = len(found["events"])
    told = {
        "event": f"it would become {count} event{'s' if count > 1 else ''}",
        "dropped": f"it would be dropped on purpose: {why}",
        "parked": f"it would be a dead letter: {why}",
        "waits": f"it would wait: {why}",
    }
    lines = []
    if (known := found["decoded"]) is not None:
        version = f", version {known['version']}" if "version" in known else ""
        lines += [f"decoded as {known['format']}{version}:", *json_lines(known["value"])]
    lines.append(told[found["outcome"]])
    if (breach := found["breach"]) is not None:
        lines.append(f"though it breaks its contract: {breach['code']}: {breach['detail']}")
    if (first := found["waits_behind"]) is not None:
        lines.append(
            f"but first it would wait behind {first['payloads']} of {first['entity_id']}: "
            f"{first['reason']}: {first['detail']}"
        )
    for event in (*found["events"], *found["derived"]):
        by = ", which a state emits" if "cause" in event else ""
        lines += [f"{event['type']} of {event['entity_id']} at {event['time']}{by}:"]
        lines += json_lines(event["data"])
    if found["states"] is None:
        lines.append("the states after are not known: the gateway's view is not here, or not ready")
    for state in found["states"] or ():
        detail = f" ({state['detail']})" if state["detail"] else ""
        of = "new" if state["version"] is None else f"as of version {state['version']}"
        lines.append(f"{state['entity']} {state['id']}, {of}: {state['outcome']}{detail}")
        if state["outcome"] == "changes":
            lines += json_lines(state["after"])
    return lines
