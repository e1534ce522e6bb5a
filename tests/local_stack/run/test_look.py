import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from local_stack import cli
from local_stack.run.server_addresses import kafka_bootstrap
from local_stack.run.stack_file import write_status
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import table
from local_stack.terminal.printable import as_text, printable


@pytest.fixture(autouse=True)
def no_servers_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        monkeypatch.delenv(name)


def test_json_stays_as_it_is_and_other_bytes_do_no_harm() -> None:
    assert as_text(b'{"value": 85.0, "room": "K\xc3\xbcche"}') == '{"value": 85.0, "room": "Küche"}'
    assert as_text(b'{\n  "value": 1\n}') == '{\n  "value": 1\n}'
    assert as_text(b"plain") == "plain"
    assert as_text(b"\xff\x00\x1b[2J") == "\\xff\\x00\\x1b[2J"
    assert (as_text(None), as_text(b"")) == ("(null)", "(empty)")
    assert printable("a\nb") == "a\\nb"


def test_a_table_is_aligned() -> None:
    rows = [(1, None, {"a": 1}), (200, "x", [True])]
    assert table(["n", "word", "json"], rows) == [
        "n    word  json",
        "---  ----  --------",
        '1    -     {"a": 1}',
        "200  x     [true]",
    ]


VERBS = [["tail", "dlq.enrich.v1"], ["sql", "SELECT 1"], ["devices", "list"], ["demo"]]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_on_a_stopped_stack_it_says_how_to_start_one(verb: list[str], tmp_path: Path) -> None:
    """Whatever listens by now where the last run did."""
    last = {"kafka_bootstrap": "127.0.0.1:1", "postgres_url": "postgresql://127.0.0.1:1/none"}
    write_status(tmp_path, {**last, "gateway_url": "http://127.0.0.1:1", "services": {}})
    error = CliRunner().invoke(cli.app, [*verb, "--state-dir", str(tmp_path)]).exception
    assert isinstance(error, StackError)
    assert error.what == f"no stack runs on {tmp_path}"
    assert "./headrace up" in error.fix


def test_a_server_of_ones_own_is_asked_without_a_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    assert kafka_bootstrap(tmp_path) == "127.0.0.1:1"


def test_a_change_of_nothing_is_said_and_a_limit_is_positive(tmp_path: Path) -> None:
    runner, folder = CliRunner(), ["--state-dir", str(tmp_path)]
    nothing = runner.invoke(cli.app, ["devices", "set", "device-0001", *folder])
    assert nothing.exit_code == 2
    assert "nothing to change" in nothing.output
    assert runner.invoke(cli.app, ["devices", "list", "--limit", "-1", *folder]).exit_code == 2


def test_the_groups_of_verbs_have_an_example() -> None:
    assert "Example: ./headrace up" in CliRunner().invoke(cli.app, ["--help"]).output
    devices = CliRunner().invoke(cli.app, ["devices", "--help"]).output
    assert "Example: ./headrace devices list" in devices
