"""`./headrace topics`: the topics of the flow, and more partitions for one of them."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from local_stack.run.options import StateDir, folder_of
from local_stack.run.server_addresses import kafka_bootstrap, running_stack
from local_stack.servers.gateways import is_gateway
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, say_json, say_rows
from local_stack.terminal.progress import say

if TYPE_CHECKING:
    from local_stack.topics.widen import Widened

app = typer.Typer(
    no_args_is_help=True,
    help="""The topics of the flow: look, give one more partitions.

    Example: ./headrace topics list
    """,
)


@app.command("list")
def list_(output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """The flow's topics, how many partitions each has, and whether `widen` takes it.

    Example: ./headrace topics list
    """
    from clients.kafka.offsets import LogOffsets
    from local_stack.machine.settings_check import chosen_flow
    from local_stack.servers.kafka import asking_kafka
    from shared.consumer_groups import OPERATOR

    flow = chosen_flow()
    topics = flow.topics()
    with asking_kafka(kafka_bootstrap(state_dir)) as kafka, LogOffsets(kafka, OPERATOR) as log:
        counts = log.partition_counts(topic.name for topic in topics)
    rows: list[dict[str, Any]] = [
        {
            "topic": topic.name,
            "partitions": counts.get(topic.name),
            "can_be_widened": topic.name in flow.posted_topics,
            "what": topic.why,
        }
        for topic in topics
    ]
    say_rows(rows, output, "The flow has no topics.")


@app.command()
def widen(
    topic: Annotated[str, typer.Argument(help="An ingest topic; `list` shows which.")],
    to: Annotated[int, typer.Option(min=1, help="How many partitions it is to have.")],
    within: Annotated[
        float, typer.Option(min=0, help="So many seconds the jobs have to reach its end.")
    ] = 600.0,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Give an ingest topic more partitions while traffic runs; each entity keeps its order.

    The gateways accept into their spools until the jobs have done all that is in the topic. If this
    is ended in the middle, they go on at once; to call it again is always right.

    Example: ./headrace topics widen ingest.telemetry.v1 --to 8
    """
    found = _widen(topic, to, within, state_dir, say if output is Output.TABLE else _nothing)
    if output is Output.JSON:
        say_json(found._asdict())
    elif found.held_s:
        say(f"{topic} has {to} partitions; the gateways wrote to their spools for {found.held_s} s")
    else:
        say(f"{topic} has {to} partitions already")


def _widen(topic: str, to: int, within_s: float, state_dir: Any, tell: Any) -> "Widened":
    from local_stack.machine.settings_check import chosen_flow
    from local_stack.servers.kafka import asking_kafka
    from local_stack.topics.down_readers import refuse_readers_that_are_down
    from local_stack.topics.held_gateways import one_widening
    from local_stack.topics.refusals import refuse_what_cannot_be
    from local_stack.topics.widen import Widened, Widening
    from local_stack.topics.widened_log import WidenedLog

    flow, folder = chosen_flow(), folder_of(state_dir)
    readers = [job.name for job in flow.jobs() if topic in job.ignited_by]
    services = running_stack(folder)["services"]
    gateways = [name for name in services if is_gateway(name)]
    down = [name for name in gateways if services[name]["state"] != "running"]
    with (
        one_widening(folder),
        asking_kafka(kafka_bootstrap(state_dir)) as kafka,
        WidenedLog(kafka, topic, readers) as log,
    ):
        refuse_what_cannot_be(flow, topic, log.count(), to)
        widening = Widening(log, folder, topic, tell)
        if widening.is_done(to):
            return Widened(topic, to, to, 0.0)
        if not gateways or down:
            raise StackError(
                f"not running: {', '.join(down) or 'a gateway'}; nothing was changed",
                "wait until ./headrace status shows all gateways running",
            )
        refuse_readers_that_are_down(kafka, readers)
        return widening.widen(to, gateways, within_s)


def _nothing(_: str) -> None:
    """Whoever wants JSON wants no sentences."""
