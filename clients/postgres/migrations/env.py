"""Alembic's entry: runs the revisions on the connection that `schema.migrate` opened, makes the
tables of the flow's views, then grants each role what it may do: a revision, a table or a role may
be new."""

from alembic import context
from sqlalchemy import text

from clients.postgres.grants import ROLES, grants
from clients.postgres.view_tables import make_tables

# any number will do as long as no other part of the system takes it
_ONE_MIGRATION_AT_A_TIME = 4_729_018_801

# of one's own server only what is ours to grant
_OWN_TABLES = """
    SELECT relname FROM pg_class WHERE relnamespace = 'headrace'::regnamespace
        AND relkind IN ('r', 'p', 'v', 'm') AND pg_has_role(relowner, 'USAGE') ORDER BY relname
"""
_ROLES_THERE = "SELECT rolname FROM pg_roles WHERE rolname = ANY(:names)"

connection = context.config.attributes["connection"]
views = context.config.attributes["views"]
context.configure(connection=connection, version_table_schema="headrace")
with context.begin_transaction():
    connection.execute(text(f"SELECT pg_advisory_xact_lock({_ONE_MIGRATION_AT_A_TIME})"))
    connection.execute(text("CREATE SCHEMA IF NOT EXISTS headrace"))
    context.run_migrations()
    make_tables(connection.connection.driver_connection, views)
    tables = connection.execute(text(_OWN_TABLES)).scalars().all()
    roles = connection.execute(text(_ROLES_THERE), {"names": [*ROLES]}).scalars().all()
    for statement in grants([*tables], [*roles], {view.name for view in views}):
        connection.execute(text(statement))
