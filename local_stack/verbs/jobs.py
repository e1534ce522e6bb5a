"""`./headrace jobs`: how each job is, and that it pauses, goes on, or makes its state anew."""

from typing import Annotated

import typer

from local_stack.run.desks import jobs_desk
from local_stack.run.options import StateDir
from local_stack.terminal.output import Output, OutputOption, say_rows
from local_stack.terminal.progress import say
from local_stack.terminal.user import user_name

app = typer.Typer(
    no_args_is_help=True,
    help="""Jobs: list, pause, resume, rebuild.

    Example: ./headrace jobs pause persist --why "the store is being moved"
    """,
)
Why = Annotated[str, typer.Option(help="For the audit, and for who reads /health.")]
_SHOWN = ("job", "state", "lag_s", "lag_records", "detail")


@app.command("list")
def list_(output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """How each job of the flow is, and what is wanted of it.

    Example: ./headrace jobs list
    """
    with jobs_desk(state_dir) as desk:
        found = desk.all()
    rows = found if output is Output.JSON else [{k: row[k] for k in _SHOWN} for row in found]
    say_rows(rows, output, "This flow has no job.")


@app.command()
def pause(job: str, why: Why = "", state_dir: StateDir = None) -> None:
    """It ends its query within seconds and begins none until it is resumed, also when it is started
    again. What comes for it waits in Kafka.

    Example: ./headrace jobs pause persist --why "the store is being moved"
    """
    with jobs_desk(state_dir) as desk:
        desk.pause(job, why, by=user_name())
    say(f"{job} pauses; ./headrace jobs resume {job}")


@app.command()
def resume(job: str, state_dir: StateDir = None) -> None:
    """It goes on where it left off. One that has failed tries again.

    Example: ./headrace jobs resume persist
    """
    with jobs_desk(state_dir) as desk:
        desk.resume(job, by=user_name())
    say(f"{job} goes on")


@app.command()
def rebuild(job: str, why: Why = "", state_dir: StateDir = None) -> None:
    """It throws its working state away and makes it anew from the topics that have it: fold and
    aggregate from snapshots, a view from its events. Nothing is lost or counted twice.

    Example: ./headrace jobs rebuild fold
    """
    with jobs_desk(state_dir) as desk:
        desk.rebuild(job, why, by=user_name())
    say(f"{job} makes its state anew; watch it with: ./headrace jobs list")
