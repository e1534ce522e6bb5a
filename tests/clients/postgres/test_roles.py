"""What each part may do in PostgreSQL, and above all what it may not."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from clients.postgres import schema
from clients.postgres.grants import DESK, GATEWAY, JOBS, OWNER, READER, ROLES
from local_stack.machine.paths import CHECKOUT
from local_stack.run.stack import Stack
from tests.servers import in_database_of

pytestmark = pytest.mark.stack

VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
# S, I, U, D: what the jobs may, what the desk may
TABLES = {
    "alembic_version": ("", ""),
    "device": ("S", ""),
    "device_model": ("S", ""),
    "entity_state": ("SIUD", "SIUD"),
    "state_version": ("SIU", "SIU"),
    "event": ("SIU", "SIU"),
    "ledger_journal": ("SID", "I"),
    "ledger_lane": ("SIU", ""),
    "ledger_minute": ("SIU", ""),
    "ledger_page": ("SIU", ""),
    "ledger_partition": ("SIU", ""),
    "ledger_state": ("SU", ""),
    "letter": ("", "SIU"),
    "letter_attempt": ("", "SI"),
    "letter_audit": ("", "SI"),
    "letter_count": ("", "SID"),
    "letter_place": ("", "SIU"),
    "master_refusal": ("SIUD", "S"),
    "master_row": ("SIUD", "SIUD"),
    "master_source": ("SIU", "S"),
    "outbox": ("SID", "SI"),
    "parked": ("SI", "SI"),
    "waiting_row": ("SIUD", "SU"),
    "redrive": ("", "SIU"),
    "reenrich_run": ("SIU", ""),
    "repeat": ("SIUD", "SI"),
    "recount": ("SIUD", ""),
    "seed": ("", ""),
}
GATEWAYS = "event", "letter", "state_version"  # which it reads; of two others, some columns
IN_PART = "outbox", "waiting_row"
PARTS = (JOBS, DESK, GATEWAY, READER)


class Database:
    """A fresh one, and connections to it under each role."""

    def __init__(self, parts: Stack, url: str) -> None:
        self._parts, self.url = parts, url

    def as_(self, role: str) -> psycopg.Connection:
        url = in_database_of(self.url, self._parts.postgres_url_of(role))
        return psycopg.connect(url, autocommit=True)


@pytest.fixture
def database(parts: Stack, postgres_url: str) -> Database:
    return Database(parts, postgres_url)


def test_no_part_is_a_superuser_or_may_make_roles_and_databases(database: Database) -> None:
    for role in ROLES:
        with database.as_(role) as connection:
            (found,) = connection.execute(
                """SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls
                   FROM pg_roles WHERE rolname = current_user"""
            ).fetchall()
        assert found == (False,), role


def _granted(database: Database) -> Iterator[tuple[str, str, str]]:
    with psycopg.connect(database.url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'headrace'")
        for (table,) in tables.fetchall():
            for role in PARTS:
                for verb in VERBS:
                    asked = "SELECT has_table_privilege(%s, %s, %s)"
                    if connection.execute(asked, (role, f"headrace.{table}", verb)).fetchone() == (
                        True,
                    ):
                        yield role, table, verb


def test_each_part_may_do_in_each_table_what_stands_here_and_nothing_else(
    database: Database,
) -> None:
    expected = {
        (role, table, verb)
        for table, (jobs, desk) in TABLES.items()
        for role, letters in ((JOBS, jobs), (DESK, desk), (READER, "S"))
        for verb in VERBS[:4]
        if verb[0] in letters
    }
    expected |= {(GATEWAY, table, "SELECT") for table in GATEWAYS}
    assert {*_granted(database)} == expected


@pytest.mark.parametrize("role", PARTS)
def test_what_it_may_not_is_refused(database: Database, role: str) -> None:
    for table, (jobs, desk) in TABLES.items():
        of_gateway = "S" if table in GATEWAYS else ""
        may = {JOBS: jobs, DESK: desk, GATEWAY: of_gateway, READER: "S"}[role]
        refused = [f"TRUNCATE headrace.{table}", f"DROP TABLE headrace.{table}"]
        refused += [f"ALTER TABLE headrace.{table} DISABLE TRIGGER ALL"]
        if "S" not in may:
            what = "value" if role == GATEWAY and table in IN_PART else ""
            refused.append(f"SELECT {what} FROM headrace.{table} LIMIT 0")
        refused += [f"DELETE FROM headrace.{table}"] if "D" not in may else []
        for statement in refused:
            with database.as_(role) as connection, pytest.raises(_REFUSED):
                connection.execute(statement.encode())
    for statement in ("CREATE TABLE headrace.mine ()", "CREATE TABLE public.mine ()"):
        with database.as_(role) as connection, pytest.raises(_REFUSED):
            connection.execute(statement.encode())


_REFUSED = (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)


def test_a_gateway_reads_what_states_were_and_became_of_payloads_and_no_more(
    database: Database,
) -> None:
    with database.as_(GATEWAY) as connection:
        connection.execute("SELECT FROM headrace.state_version, headrace.event, headrace.letter")
        connection.execute("SELECT seq, topic, headers FROM headrace.outbox")
        connection.execute("SELECT line, reason, detail, headers FROM headrace.waiting_row")
        for statement in (
            "SELECT value FROM headrace.outbox",
            "SELECT value FROM headrace.waiting_row",
            "SELECT FROM headrace.device",
            "DELETE FROM headrace.state_version",
            "UPDATE headrace.event SET data = '{}'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())


def test_a_reader_changes_nothing_even_where_it_lifts_its_own_ban(database: Database) -> None:
    with database.as_(READER) as connection:
        connection.execute("SET default_transaction_read_only = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("UPDATE headrace.event SET data = '{}'")


def test_a_table_of_one_s_own_is_read_on_demand_once_it_was_granted(database: Database) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE headrace.gate (id text PRIMARY KEY)")
    with database.as_(JOBS) as jobs, pytest.raises(psycopg.errors.InsufficientPrivilege):
        jobs.execute("SELECT FROM headrace.gate")
    schema.migrate(database.url)
    with database.as_(JOBS) as jobs, database.as_(DESK) as desk:
        jobs.execute("SELECT FROM headrace.gate")
        for one, statement in (
            (jobs, "DELETE FROM headrace.gate"),
            (desk, "SELECT FROM headrace.gate"),
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                one.execute(statement)


def test_a_database_of_an_earlier_version_is_handed_over(database: Database) -> None:
    """Its objects belong to a superuser, who is nobody's role any more."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        for _ in range(2):
            connection.execute((CHECKOUT / "clients" / "postgres" / "roles.sql").read_bytes())
    with database.as_(OWNER) as owner:
        owner.execute("ALTER TABLE headrace.event ADD COLUMN more text")
        owner.execute("CREATE OR REPLACE FUNCTION headrace.wake_relay() RETURNS trigger"
                      " LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")  # fmt: skip
    url = in_database_of(database.url, database._parts.postgres_url_of(OWNER))
    schema.migrate(url)
    with database.as_(GATEWAY) as gateway, pytest.raises(psycopg.errors.InsufficientPrivilege):
        gateway.execute("CREATE TEMP TABLE mine ()")


def test_no_address_holds_a_password(parts: Stack) -> None:
    folder = Path(parts.state_dir) / "postgres"
    for role in ROLES:
        password = (folder / f"{role}.pgpass").read_text().strip().rpartition(":")[2]
        assert len(password) > 20
        assert password not in parts.postgres_url_of(role)
        assert (folder / f"{role}.pgpass").stat().st_mode & 0o077 == 0
