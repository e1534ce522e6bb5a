import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from local_stack import cli
from local_stack.devices import parse_attributes
from local_stack.errors import StackError

VERBS = [
    ["up"],
    ["status"],
    ["stop"],
    ["test"],
    ["flow"],
    ["chaos"],
    ["reset"],
    ["version"],
    ["logs"],
    ["tail"],
    ["sql"],
    ["devices", "add"],
    ["devices", "models"],
    ["devices", "add-model"],
    ["devices", "list"],
    ["devices", "set"],
]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_has_help_with_an_example(verb: list[str]) -> None:
    help_text = CliRunner().invoke(cli.app, [*verb, "--help"]).output
    assert f"Example: ./headrace {' '.join(verb)}" in help_text


def test_status_as_json_and_exit_code(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, ["status", "-o", "json", "--state-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert json.loads(result.output)["state_dir"] == str(tmp_path)


def test_an_error_is_one_sentence_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["headrace", "chaos", "kafka", "down", "--state-dir", str(tmp_path)]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    said = capsys.readouterr().err
    assert said.splitlines()[0] == f"headrace: no stack runs on {tmp_path}"
    assert "./headrace up" in said
    assert "Traceback" not in said


def test_reset_removes_only_a_state_folder_and_only_when_asked(tmp_path: Path) -> None:
    runner, precious = CliRunner(), tmp_path / "precious"
    precious.mkdir()
    ask = ["reset", "--state-dir", str(precious)]
    assert isinstance(runner.invoke(cli.app, [*ask, "--yes"]).exception, StackError)
    (precious / "launcher.pid").touch()
    assert isinstance(runner.invoke(cli.app, ask).exception, StackError)
    assert precious.exists()
    assert runner.invoke(cli.app, [*ask, "--yes"]).exit_code == 0
    assert not precious.exists()


def test_attributes_are_json_where_they_can_be() -> None:
    assert parse_attributes(["floor=3", "room=lab"]) == {"floor": 3, "room": "lab"}
    assert parse_attributes(None) is None
    with pytest.raises(StackError, match="no attribute"):
        parse_attributes(["floor"])
