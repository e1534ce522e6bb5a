"""One statement that reads, because the bundle of PostgreSQL has no psql."""

import psycopg

from clients.postgres.store import Connection, one_line
from local_stack.terminal.errors import StackError

Rows = list[tuple[object, ...]]


def read_only(connection: Connection, statement: str) -> tuple[list[str], Rows]:
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


def _tables(connection: Connection) -> list[str]:
    query = "SELECT tablename FROM pg_tables WHERE schemaname = 'headrace' ORDER BY tablename"
    return [f"headrace.{name}" for (name,) in connection.execute(query)]
