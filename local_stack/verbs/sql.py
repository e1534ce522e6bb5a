from local_stack.run.options import StateDir
from local_stack.run.reach import database
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, say_json, table
from local_stack.terminal.progress import say


def sql(statement: str, output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """Run one statement that reads, and print its rows.

    Example: ./headrace sql "SELECT count(*) FROM headrace.event"
    """
    from local_stack.operate.sql import read_only

    with database(state_dir, "sql") as connection:
        names, rows = read_only(connection, statement)
    if output is Output.JSON:
        if len(set(names)) < len(names):
            raise StackError("two columns have the same name", "name them apart with AS")
        say_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    if names:
        say("\n".join(table(names, rows)))
    say(f"({len(rows)} row{'' if len(rows) == 1 else 's'})")
