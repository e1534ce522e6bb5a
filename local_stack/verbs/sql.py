from typing import TYPE_CHECKING

from local_stack.run.options import StateDir
from local_stack.run.server_addresses import database
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output, OutputOption, say_json, table
from local_stack.terminal.progress import say

if TYPE_CHECKING:
    from clients.postgres.store import Connection

Rows = list[tuple[object, ...]]


def sql(statement: str, output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """Run one statement that reads, and print its rows.

    Example: ./headrace sql "SELECT count(*) FROM headrace.event"
    """
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


def read_only(connection: "Connection", statement: str) -> tuple[list[str], Rows]:
    """In place of psql, which the bundle of PostgreSQL has not."""
    import psycopg

    from clients.postgres.store import one_line

    try:
        connection.execute("SET default_transaction_read_only = on")
        # a prepared one, since that cannot be several of which the first lifts the ban
        cursor = connection.execute(statement.encode(), prepare=True)
        names = [column.name for column in cursor.description or ()]
        return names, cursor.fetchall() if names else []
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise StackError("this would change data, and `sql` only reads") from error
    except psycopg.errors.UndefinedTable as error:
        raise StackError(one_line(error), f"tables: {', '.join(_tables(connection))}") from error
    except psycopg.Error as error:
        connection.close()  # a COPY, say, would be under way still
        raise StackError(f"PostgreSQL refuses it: {one_line(error)}") from error


def _tables(connection: "Connection") -> list[str]:
    query = "SELECT tablename FROM pg_tables WHERE schemaname = 'headrace' ORDER BY tablename"
    return [f"headrace.{name}" for (name,) in connection.execute(query)]
