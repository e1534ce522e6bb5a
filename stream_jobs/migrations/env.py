"""Alembic's entry: runs the revisions on the connection that `store.migrate` opened."""

from alembic import context
from sqlalchemy import text

# any number will do as long as no other part of the system takes it
_ONE_MIGRATION_AT_A_TIME = 4_729_018_801

connection = context.config.attributes["connection"]
context.configure(connection=connection, version_table_schema="headrace")
with context.begin_transaction():
    connection.execute(text(f"SELECT pg_advisory_xact_lock({_ONE_MIGRATION_AT_A_TIME})"))
    connection.execute(text("CREATE SCHEMA IF NOT EXISTS headrace"))
    context.run_migrations()
