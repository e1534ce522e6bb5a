"""`./headrace spool`: what the gateway's spool has set aside, and its way into Kafka."""

from typing import Annotated

import typer

from local_stack.run.options import StateDir, folder_of
from local_stack.run.reach import kafka_bootstrap
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, say_json, say_rows, table
from local_stack.terminal.progress import say

app = typer.Typer(
    no_args_is_help=True,
    help="""What the gateway has accepted and could not bring to Kafka: look, send again.

    Example: ./headrace spool list
    """,
)


@app.command("list")
def list_(output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """What is set aside: what Kafka has refused for good, and what the disk has damaged.

    Example: ./headrace spool list
    """
    from local_stack.operate.spool import listed

    say_rows(list(listed(folder_of(state_dir))), output, "Nothing is set aside.")


@app.command()
def replay(
    file: Annotated[
        str | None, typer.Option("--file", help="This one alone; a name that `list` shows.")
    ] = None,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Send what is whole to Kafka again, once its topic takes it. What goes is set aside no more.

    A gateway may run meanwhile. To do it twice does no harm: each has kept its event id.

    Example: ./headrace spool replay
    """
    from local_stack.operate.spool import replay
    from shared.settings import Settings

    settings = Settings(kafka_bootstrap=kafka_bootstrap(state_dir))
    done = replay(settings, folder_of(state_dir), file)
    if output is Output.JSON:
        refused = [refusal._asdict() for refusal in done.refused]
        say_json({"sent": done.sent, "refused": refused, "unreadable": done.unreadable})
    else:
        if done.refused:
            say("\n".join([*table(list(done.refused[0]._fields), done.refused), ""]))
        say(f"{done.sent} payloads are in Kafka now.")
        if done.unreadable:
            say("no payload can be made out in these, so they stay; once looked at, remove them:")
            say("\n".join(f"  {name}" for name in done.unreadable))
    if done.refused:
        raise StackError(
            f"Kafka refused {len(done.refused)} payloads; they stay set aside",
            "mend what it says (`max.message.bytes` of the topic, an ACL) and replay again",
        )
