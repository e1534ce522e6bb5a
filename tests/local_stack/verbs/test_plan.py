import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from local_stack import cli
from local_stack.measuring import measure
from local_stack.plan import costs_file
from local_stack.plan.costs import Costs
from local_stack.plan.shipped import SHIPPED
from local_stack.terminal.errors import StackError


def run(*arguments: str, folder: Path) -> str:
    result = CliRunner().invoke(cli.app, ["plan", *arguments, "--state-dir", str(folder)])
    if result.exception:
        raise result.exception
    return result.output


def test_the_table_has_parts_machines_times_and_what_gives_way(tmp_path: Path) -> None:
    said = run("--rate", "2k", "--entities", "1M", "--bytes", "300", folder=tmp_path)
    assert said.startswith("From the figures that are shipped")
    for word in ("gateway", "postgres", "partitions a topic", "First to give way", "Assumed:"):
        assert word in said
    assert "catch up after 1 h" in said
    assert "Everything on one machine" not in said


def test_json_has_the_same_as_numbers(tmp_path: Path) -> None:
    arguments = "--rate", "1M", "--entities", "100M", "--machine", "2", "-o", "json"
    found = json.loads(run(*arguments, folder=tmp_path))
    assert found["totals"]["partitions"] > 4
    assert found["gives_way_first"]["holds"] is False
    assert found["one_machine"]["catch_up_s"] is None


def test_a_load_that_does_not_hold_says_so_and_what_to_do(tmp_path: Path) -> None:
    said = run("--rate", "1M", folder=tmp_path)
    assert "DOES NOT HOLD" in said
    assert "What to do: " in said
    assert "one machine" not in said
    assert ": never" in said


def test_the_ladder_goes_up_to_a_million_events_and_a_hundred_million_entities(
    tmp_path: Path,
) -> None:
    said = run("--simulate", "--retention", "1d", folder=tmp_path)
    last = next(line for line in said.splitlines() if line.startswith("100,000,000  1,000,000"))
    assert "no" in last
    assert "relay: one process works, the others wait. What to do: " in said
    found = json.loads(run("--simulate", "-o", "json", folder=tmp_path))
    assert len(found["steps"]) == 21


def test_what_was_measured_here_is_used_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Costs("this machine", SHIPPED.parts, SHIPPED.sizes)
    monkeypatch.setattr(measure, "measured", lambda: mine)
    assert "plan.json has what each part costs here" in run("--measure", folder=tmp_path)
    assert run(folder=tmp_path).startswith("From the figures measured here: this machine.")
    assert costs_file.read(tmp_path) == mine


@pytest.mark.parametrize("text", ["[", "{}"])
def test_a_file_of_figures_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    costs_file.costs_file(tmp_path).write_text(text)
    with pytest.raises(StackError, match="is not what --measure writes") as refused:
        run(folder=tmp_path)
    assert "--measure" in refused.value.fix


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--rate", "fast"), "--rate 'fast' is no number above 0"),
        (("--rate", "0"), "--rate '0' is no number above 0"),
        (("--rate", "-5"), "--rate '-5' is no number above 0"),
        (("--entities", "1G"), "--entities '1G' is no number above 0"),
        (("--retention", "30"), "--retention '30' is no time above 0"),
        (("--outage", "0h"), "--outage '0h' is no time above 0"),
    ],
)
def test_what_is_no_number_or_time_is_refused_in_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...], what: str
) -> None:
    with pytest.raises(StackError) as refused:
        run(*arguments, folder=tmp_path)
    assert refused.value.what == what
    assert refused.value.fix.startswith("write ")
