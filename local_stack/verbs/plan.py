"""`./headrace plan`: what a load needs, from costs that were measured, and what gives way first."""

import re
import sys
from contextlib import nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any

import typer

from local_stack.run.options import StateDir, folder_of
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, say_found

if TYPE_CHECKING:
    from local_stack.plan.work import Work

_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_FACTORS = {"": 1, "k": 1_000, "M": 1_000_000}


def plan(
    rate: Annotated[str, typer.Option(help="Events a second: 500, 20k, 1M.")] = "1k",
    entities: Annotated[str, typer.Option(help="That send: 10k, 100M.")] = "10k",
    payload: Annotated[int, typer.Option("--bytes", min=1, help="Of a payload.")] = 200,
    retention: Annotated[str, typer.Option(help="Disk for so long: 30d, 12h.")] = "30d",
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Of a topic; without it, as many as it takes.")
    ] = None,
    outage: Annotated[str, typer.Option(help="To catch up after: 15m, 1h, 1d.")] = "1h",
    per_post: Annotated[int, typer.Option(min=1, max=2_000, help="Payloads in a POST.")] = 1,
    node_cores: Annotated[int, typer.Option(min=2, help="Of a node.")] = 8,
    node_memory: Annotated[int, typer.Option(min=2, help="GiB of a node.")] = 32,
    machine: Annotated[
        float | None, typer.Option(min=0.5, help="Also: everything on one, of so many cores.")
    ] = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Up to 1M events/s and 100M entities.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure what a payload costs this machine.")
    ] = False,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Plan partitions, cores, memory and disk for a load, and say what gives way first.

    Example: ./headrace plan --rate 20k --entities 1M --bytes 300 --retention 30d
    """
    from local_stack.plan.need import Need

    need = Need(
        events_per_s=_count("--rate", rate),
        entities=_count("--entities", entities),
        body_bytes=payload,
        retention_days=_seconds("--retention", retention) / 86_400,
        partitions=partitions,
        outage_s=_seconds("--outage", outage),
        per_post=per_post,
        node_cores=node_cores,
        node_gib=node_memory,
    )
    if measure:
        _measure(state_dir, output)
        return
    from local_stack.plan import costs_file
    from local_stack.plan.work import Work

    work = Work(costs_file.read(folder_of(state_dir)), need)
    _ladder(work, output) if simulate else _plan(work, machine, output)


def _plan(work: "Work", machine: float | None, output: Output) -> None:
    from local_stack.plan.plan import plan as planned
    from local_stack.plan.plan_text import plan_lines

    found = planned(work, machine)
    say_found(found, "\n".join(plan_lines(found)), output)


def _ladder(work: "Work", output: Output) -> None:
    from local_stack.plan.plan_text import ladder_lines
    from local_stack.plan.simulation import ladder

    steps = list(ladder(work))
    found: dict[str, Any] = {"costs": work.costs.said, "steps": steps}
    say_found(found, "\n".join(ladder_lines(work.costs.said, steps)), output)


def _measure(state_dir: StateDir, output: Output) -> None:
    from local_stack.measuring.measure import measured
    from local_stack.plan import costs_file

    folder = folder_of(state_dir)
    with redirect_stdout(sys.stderr) if output is Output.JSON else nullcontext():
        found = measured()
    file = costs_file.write(folder, found)
    say_found(costs_file.as_json(found), f"{file} has what each part costs here.", output)


def _count(option: str, text: str) -> int:
    known = re.fullmatch(r"(\d{1,12}(?:\.\d{1,3})?)([kM]?)", text)
    number = round(float(known[1]) * _FACTORS[known[2]]) if known else 0
    if not 1 <= number <= 10**12:
        raise StackError(f"{option} {text!r} is no number above 0", "write 500, 20k or 1.5M")
    return number


def _seconds(option: str, text: str) -> float:
    known = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if not known or not int(known[1]):
        raise StackError(f"{option} {text!r} is no time above 0", "write 90s, 15m, 2h or 30d")
    return int(known[1]) * _UNIT_S[known[2]]
