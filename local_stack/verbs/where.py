"""`./headrace where`: what became of a payload, by the id on its receipt."""

from typing import Annotated

import typer

from local_stack.run.desks import whereabouts
from local_stack.run.options import StateDir
from local_stack.terminal.output import Output, OutputOption, say_found
from local_stack.terminal.printable import printable


def where(
    event_id: Annotated[str, typer.Argument(help="The `id` of a receipt, or of an event.")],
    place: Annotated[
        str | None,
        typer.Option(help="topic/partition/offset of the receipt: finds it for certain."),
    ] = None,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Say where an event is: accepted, waiting, enriched, stored or parked, and why.

    Example: ./headrace where 01a1fe21-64e7-7df2-bd10-eeb3ebef5579
    """
    with whereabouts(state_dir) as desk:
        found = desk.find(event_id, place)
    lines = [f"{found['now']}: {printable(found['why'])}"]
    for stage in found["stages"]:
        rest = {name: its for name, its in stage.items() if name != "stage"}
        told = "  ".join(f"{name} {printable(str(its))}" for name, its in rest.items())
        lines.append(f"  {stage['stage']:<9} {told}")
    say_found(found, "\n".join(lines), output)
