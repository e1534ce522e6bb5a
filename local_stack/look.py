"""`./headrace tail` and `sql`: looking into the running stack's topics and tables."""

from typing import Annotated

import typer

from local_stack.options import StateDir
from local_stack.progress import say
from local_stack.reach import database, kafka_bootstrap


def tail(
    topic: str,
    lines: Annotated[int, typer.Option("-n", "--lines", min=1, help="How many records.")] = 10,
    state_dir: StateDir = None,
) -> None:
    """Show the last records of a topic: place, key, headers and value.

    Example: ./headrace tail dlq.enrich.v1 -n 3
    """
    from local_stack.tail_topic import last_records, shown

    bootstrap = kafka_bootstrap(state_dir)
    records = last_records(bootstrap, topic, lines)
    say("\n\n".join(map(shown, records)) if records else f"There is no record in {topic}.")


def sql(statement: str, state_dir: StateDir = None) -> None:
    """Run one statement that reads, and print its rows.

    Example: ./headrace sql "SELECT count(*) FROM headrace.event"
    """
    from local_stack.sql import read_only, table

    with database(state_dir, "sql") as connection:
        names, rows = read_only(connection, statement)
    if names:
        say("\n".join(table(names, rows)))
    say(f"({len(rows)} row{'' if len(rows) == 1 else 's'})")
