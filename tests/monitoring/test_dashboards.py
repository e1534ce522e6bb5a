"""The dashboards show what is exported. Nobody has opened them here: there is no Grafana."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.monitoring import exported
from tests.monitoring.test_alerts import OF_PROMETHEUS, refuse_unknown

FOLDER = Path(__file__).parents[2] / "monitoring" / "dashboards"
BOARDS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
COLUMNS = 24
PANELS = [
    pytest.param(board, panel, id=f"{board}: {panel['title']}")
    for board, its in BOARDS.items()
    for panel in its["panels"]
    if panel["type"] != "row"
]
every_board = pytest.mark.parametrize("board", BOARDS)


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    return exported.series(tmp_path_factory.mktemp("spool")) | OF_PROMETHEUS


@pytest.mark.parametrize(("board", "panel"), PANELS)
def test_a_panel_shows_metrics_that_are_exported_and_says_what_they_mean(
    board: str, panel: dict[str, Any], series: dict[str, set[str]]
) -> None:
    assert panel["title"] and panel["description"].endswith((".", "list."))
    assert panel["fieldConfig"]["defaults"]["unit"]
    for target in panel["targets"]:
        refuse_unknown(target["expr"], series)
        assert target["datasource"]["uid"] == "${datasource}"
        names = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval", "__range"}
        assert names <= {one["name"] for one in BOARDS[board]["templating"]["list"]}


@every_board
def test_choices_are_made_of_labels_that_are_exported(
    board: str, series: dict[str, set[str]]
) -> None:
    choices = BOARDS[board]["templating"]["list"]
    for query in [one["query"] for one in choices if one["type"] == "query"]:
        ((metric, label),) = re.findall(r"^label_values\((\w+), (\w+)\)$", query)
        assert label in series[metric] | {"instance"}


@every_board
def test_panels_have_numbers_of_their_own_and_cover_none_of_each_other(board: str) -> None:
    panels = BOARDS[board]["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    covered: set[tuple[int, int]] = set()
    for at in (panel["gridPos"] for panel in panels):
        assert at["x"] + at["w"] <= COLUMNS
        columns, lines = range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])
        cells = {*itertools.product(columns, lines)}
        assert not cells & covered
        covered |= cells


def test_the_boards_have_names_of_their_own() -> None:
    assert {*BOARDS} == {"flow", "stores_and_nodes"}
    assert len({board["uid"] for board in BOARDS.values()}) == len(BOARDS)
