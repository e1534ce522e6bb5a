"""Addresses of PostgreSQL: for each part its own, and no password for who looks on."""

from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from typer.testing import CliRunner

from clients.postgres.grants import DESK, READER
from local_stack import cli
from local_stack.machine.locks import InstanceLock
from local_stack.run.ready_block import ready_block
from local_stack.run.stack import Stack
from local_stack.run.stack_file import write_status
from local_stack.servers.postgres_address import as_role, postgres_url, shown

OWN = "postgresql://me:hunter2@db.example:5433/mine"


def test_an_address_names_a_role_and_the_file_with_its_password(tmp_path: Path) -> None:
    folder = tmp_path / "a folder %20"
    (folder / "postgres").mkdir(parents=True)
    assert postgres_url(folder, 5432, READER) is None
    (folder / "postgres" / "password").write_text("hunter2")
    url = postgres_url(folder, 5432, READER)
    assert url is not None
    assert "hunter2" not in url
    for role, address in ((READER, url), (DESK, as_role(url, DESK))):
        assert conninfo_to_dict(address) == {
            **{"user": role, "host": "127.0.0.1", "port": "5432", "dbname": "headrace"},
            "passfile": str(folder / "postgres" / f"{role}.pgpass"),
        }
    assert as_role(OWN, DESK) == OWN


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (OWN, "postgresql://me:***@db.example:5433/mine"),
        ("postgresql://db.example/mine?user=me&password=hunter2", "postgresql://me:***@"),
        ("host=db.example user=me password='hunter2'", "postgresql://me:***@db.example:5432/"),
        ("postgresql://me:hunter2@db.example/mine?nonsense=1", "cannot be read"),
        ("postgresql://me@db.example/mine", "postgresql://me@db.example/mine"),
    ],
)
def test_no_password_is_shown(url: str, said: str) -> None:
    assert str(shown(url)).startswith(said)
    assert "hunter2" not in str(shown(url))


def test_neither_up_nor_status_shows_a_password(tmp_path: Path) -> None:
    stack = Stack(tmp_path, settings={"HEADRACE_POSTGRES_URL": OWN}, random_ports=True)
    stack._addresses.choose_ports(lambda _: None, random_ports=True)
    assert "hunter2" not in ready_block(stack, 1.0)
    write_status(tmp_path, {"postgres_url": OWN, "services": {}})
    lock = InstanceLock(tmp_path)
    lock.acquire()
    try:
        for output in ("table", "json"):
            told = CliRunner().invoke(
                cli.app, ["status", "-o", output, "--state-dir", str(tmp_path)]
            )
            assert "me:***@db.example" in told.stdout
            assert "hunter2" not in told.stdout
    finally:
        lock.release()
