from pathlib import Path

import pytest
from typer.testing import CliRunner

from local_stack import cli
from local_stack.machine.settings_check import check_settings, chosen_flow
from local_stack.terminal.errors import StackError

OWN_FLOW = """
from shared.flow import FLOW
from shared.model import Endpoint
from shared.flow_table import Flow
from dataclasses import replace
MINE = replace(FLOW, endpoints=(replace(FLOW.endpoints[0], name="elsewhere"),))
"""


def test_the_settings_as_they_are_pass() -> None:
    check_settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADRACE_GATEWAY_PORT", "abc"),
        ("HEADRACE_PARTITIONS", "zero"),
        ("HEADRACE_FLOW", "nowhere:FLOW"),
        ("HEADRACE_FLOW", "shared.flow:NOTHING"),
        ("HEADRACE_FLOW", "shared.flow:load_flow"),
        ("HEADRACE_SPARK_CONF", "x"),
    ],
)
def test_a_wrong_setting_is_one_sentence_with_its_name(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(StackError) as error:
        check_settings()
    assert name in error.value.what
    assert "\n" not in error.value.what
    assert "http" not in error.value.what


def test_a_flow_that_fails_in_its_own_way_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_flow.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HEADRACE_FLOW", "broken_flow:FLOW")
    with pytest.raises(StackError, match=r"HEADRACE_FLOW: broken_flow.py, line 1: ZeroDiv"):
        chosen_flow()


def test_the_flow_that_is_drawn_is_the_one_that_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flow_of_ones_own.py").write_text(OWN_FLOW)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HEADRACE_FLOW", "flow_of_ones_own:MINE")
    assert "ingest.elsewhere.v1" in CliRunner().invoke(cli.app, ["flow"]).output
