"""Brings the schema of PostgreSQL up. Apart from `store`: a gateway's image has no Alembic."""

import time
from collections.abc import Iterable
from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import NullPool, create_engine

from clients.postgres.store import connect
from shared.errors import StoreAwayError
from shared.tables.view_tables import ViewTable

_MIGRATIONS = Path(__file__).parent / "migrations"


def migrate(url: str, views: Iterable[ViewTable] = (), wait_s: float = 30.0) -> None:
    """Brings the schema to the newest revision, and makes the tables of these views; StoreAwayError
    if no server answers in time, WrongViewError where rows stand in a table that does not fit."""
    _wait_for_server(url, wait_s)
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(url, application_name="headrace-migrate"),
        poolclass=NullPool,
    )
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        config.attributes["views"] = [*views]
        command.upgrade(config, "head")


def _wait_for_server(url: str, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            connect(url, "migrate").close()
            return
        except StoreAwayError as error:
            if time.monotonic() >= deadline:
                parts = conninfo_to_dict(url)  # never the password
                place = f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}"
                raise StoreAwayError(
                    f"PostgreSQL at {place} did not answer within {wait_s:.0f} s: {error}"
                ) from error
        time.sleep(0.2)
