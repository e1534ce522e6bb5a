import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from local_stack import cli
from local_stack.machine.paths import CHECKOUT
from local_stack.terminal.errors import StackError
from local_stack.verbs.devices import parse_attributes


def verbs(app: typer.Typer, *before: str) -> Iterator[list[str]]:
    for command in app.registered_commands:
        assert command.callback
        name = command.name or command.callback.__name__
        yield [*before, name]
    for group in app.registered_groups:
        assert group.typer_instance
        yield from verbs(group.typer_instance, *before, str(group.name))


@pytest.mark.parametrize("verb", list(verbs(cli.app)), ids=" ".join)
def test_every_verb_has_help_with_an_example(verb: list[str]) -> None:
    help_text = CliRunner().invoke(cli.app, [*verb, "--help"]).output
    assert f"Example: ./headrace {' '.join(verb)}" in help_text


def test_verbs_within_verbs_are_looked_at_too() -> None:
    assert ["devices", "add-model"] in list(verbs(cli.app))


def test_every_verb_of_its_own_is_found_by_the_name_of_its_file() -> None:
    # what is a word of Python's has an underscore behind it
    files = {
        path.stem.rstrip("_") for path in (CHECKOUT / "local_stack" / "verbs").glob("[a-z]*.py")
    }
    assert {verb[0] for verb in verbs(cli.app)} <= files


def ends(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """Exit code, and what it says on stderr."""
    monkeypatch.setattr("sys.argv", ["headrace", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0), capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "nearest", "see"),
    [
        (["stat"], "Did you mean 'status'?", "./headrace --help"),
        (["devices", "lst"], "'list'", "./headrace devices --help"),
        (["status", "--outptu", "json"], "--output", "./headrace status --help"),
        (["chaos", "mars", "down"], "'postgres', 'kafka', 'spark'", "./headrace chaos --help"),
        (["tail"], "'topic'", "./headrace tail --help"),
    ],
    ids=" ".join,
)
def test_a_wrong_verb_or_option_is_told_in_two_lines_with_the_nearest_one(
    arguments: list[str],
    nearest: str,
    see: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, said = ends(arguments, monkeypatch, capsys)
    what, fix = said.splitlines()
    assert code == 2
    assert what.startswith("headrace: ")
    assert nearest in what
    assert fix.strip() == f"see: {see}"


def test_torture_outside_a_checkout_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("local_stack.verbs.torture.CHECKOUT", tmp_path)
    code, said = ends(["torture", "--seed", "7"], monkeypatch, capsys)
    assert code == 1
    assert "the fault rig is not there" in said
    assert "run it in a checkout" in said


def test_a_refold_in_earnest_is_left_to_the_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = ends(["refold", "--entity", "device"], monkeypatch, capsys)
    assert code == 1
    assert "add --dry-run" in said


def test_the_flow_and_the_versions_as_json() -> None:
    flow = json.loads(CliRunner().invoke(cli.app, ["flow", "-o", "json"]).output)
    assert "ingest.telemetry.v1" in {topic["name"] for topic in flow["topics"]}
    assert {"enrich", "fold", "persist"} <= {job["name"] for job in flow["jobs"]}


def test_logs_without_a_name_tells_which_there_are(tmp_path: Path) -> None:
    def ask(*name: str) -> Result:
        return CliRunner().invoke(cli.app, ["logs", *name, "--state-dir", str(tmp_path)])

    assert "none yet" in ask().output
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "spark.log").write_text("one\ntwo\n")
    assert "spark" in ask().output
    assert ask("spark").output == "one\ntwo\n"
    error = ask("park").exception
    assert isinstance(error, StackError)
    assert "spark" in error.fix


def test_status_as_json_and_exit_code(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, ["status", "-o", "json", "--state-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert json.loads(result.output)["state_dir"] == str(tmp_path)


def test_an_error_is_one_sentence_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chaos = ["chaos", "kafka", "down", "--state-dir", str(tmp_path)]
    code, said = ends(chaos, monkeypatch, capsys)
    assert code == 1
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
