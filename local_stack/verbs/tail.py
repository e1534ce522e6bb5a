from typing import Annotated

import typer

from local_stack.run.options import StateDir
from local_stack.run.server_addresses import kafka_bootstrap
from local_stack.terminal.output import Output, OutputOption, say_found


def tail(
    topic: str,
    lines: Annotated[int, typer.Option("-n", "--lines", min=1, help="How many records.")] = 10,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Show the last records of a topic: place, key, headers and value.

    Example: ./headrace tail dlq.enrich.v1 -n 3
    """
    from local_stack.run.tail_topic import as_document, last_records, shown

    records = last_records(kafka_bootstrap(state_dir), topic, lines)
    text = "\n\n".join(map(shown, records)) if records else f"There is no record in {topic}."
    say_found([as_document(record) for record in records], text, output)
