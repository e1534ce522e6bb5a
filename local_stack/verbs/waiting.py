"""`./headrace waiting`: whose payloads wait, why and until when; tried or given up at a word."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from local_stack.run.desks import waiting_desk
from local_stack.run.options import StateDir
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, record_lines, say_json, say_rows
from local_stack.terminal.printable import printable
from local_stack.terminal.progress import say
from local_stack.terminal.user import user_name

if TYPE_CHECKING:
    from desk.waiting.lines import Stage
    from stream_jobs.waiting.codec import Ordered

app = typer.Typer(
    no_args_is_help=True,
    help="""Payloads and rows that wait: list, show, try at once, give up.

    Example: ./headrace waiting list --reason not_yet
    """,
)

Entities = Annotated[list[str] | None, typer.Argument(help="Whose payloads; or give a reason.")]
Reason = Annotated[str | None, typer.Option(help="All that wait for it: not_yet, 23503 …")]
StageOption = Annotated[
    Literal["enrich", "persist"] | None,
    typer.Option("--stage", help="Those alone that enrich, or persist, cannot do yet."),
]


@app.command("list")
def list_(
    reason: Reason = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 1000,
    after: Annotated[str | None, typer.Option(help="Go on after this entity.")] = None,
    stage: StageOption = None,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """The entities whose payloads wait, by id; how many, and why the first of them does.

    Example: ./headrace waiting list --reason missing_device
    """
    with waiting_desk(state_dir, stage) as waiting:
        page = waiting.page(limit, after, reason)
    say_rows(page.entities, output, "No payload waits.")
    if page.next and output is Output.TABLE:
        say(f'\nThere are more: --after "{page.next}"')


@app.command()
def show(
    entity: str,
    stage: StageOption = None,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """What an entity waits for, and the payload or event that holds up its others.

    Example: ./headrace waiting show device-0001
    """
    with waiting_desk(state_dir, stage) as waiting:
        found = waiting.show(entity)
    if output is Output.JSON:
        say_json(found)
        return
    headers, shown = found.pop("headers"), found.pop("payload_bytes")
    width = max(map(len, found))
    said = [f"{name:<{width}}  {printable(str(value))}" for name, value in found.items()]
    say("\n".join([*said, *record_lines(headers, shown)]))


@app.command("try")
def try_(
    entities: Entities = None,
    reason: Reason = None,
    stage: StageOption = None,
    state_dir: StateDir = None,
) -> None:
    """Have them tried at once, whatever they wait for. They stay in order.

    Example: ./headrace waiting try --reason not_yet
    """
    count = _order("try", entities or [], reason, stage, state_dir)
    say(f"the payloads of {count} {_entities(count)} are tried")


@app.command("give-up")
def give_up(
    entities: Entities = None,
    reason: Reason = None,
    stage: StageOption = None,
    state_dir: StateDir = None,
) -> None:
    """Park all of their payloads that wait now; from there they can be sent on again.

    Example: ./headrace waiting give-up device-0001
    """
    count = _order("give_up", entities or [], reason, stage, state_dir)
    say(f"the payloads of {count} {_entities(count)} are given up: ./headrace letters list")


def _order(
    what: "Ordered",
    entities: list[str],
    reason: str | None,
    stage: "Stage | None",
    state_dir: Path | None,
) -> int:
    if not entities and reason is None:
        raise StackError("whose payloads?", "name entities, or --reason")
    with waiting_desk(state_dir, stage) as waiting:
        return waiting.order(what, entities, reason, user_name())


def _entities(count: int) -> str:
    return "entity" if count == 1 else "entities"
