"""Whether a view goes on, is made anew, or has to be decided by a person."""

from dataclasses import replace
from pathlib import Path

import pytest

from shared.errors import WrongViewError
from shared.model import View
from shared.settings import JobSettings
from stream_jobs.views.job import begin_where_it_fits

ROW = View("hot", ("reading",), "SELECT event_id FROM reading", ("event_id",))


class Begun:
    def __init__(self, folder: Path) -> None:
        self._settings = JobSettings(state_dir=folder)
        self.commits = self._settings.checkpoints / ROW.job / "commits"
        self.said: list[str] = []

    def begin(self, row: View = ROW, columns: str = "event_id string", **new: int) -> list[str]:
        self.said = []
        settings = self._settings.model_copy(update=new)

        def say(state: str, why: str = "", *_: object) -> None:
            self.said.append(f"{state}: {why}")

        begin_where_it_fits(row, columns, settings, say)
        return self.said

    def has_worked(self) -> None:
        self.commits.mkdir(parents=True)
        (self.commits / "0").write_text("v1")


@pytest.fixture
def begun(tmp_path: Path) -> Begun:
    its = Begun(tmp_path)
    its.begin()
    its.has_worked()
    return its


def test_it_goes_on(begun: Begun) -> None:
    assert begun.begin() == []
    same = replace(ROW, sql=f"\n  {ROW.sql}\n", late_after_s=3600)
    assert begun.begin(same) == []
    assert begun.commits.exists()


def test_it_is_made_anew_where_its_state_does_not_fit(begun: Begun) -> None:
    assert begun.begin(state_partitions=7) == ["rebuilding: STATE_PARTITIONS_CHANGED from 2 to 7"]
    assert not begun.commits.exists()


@pytest.mark.parametrize(
    "changed",
    [
        {"sql": "SELECT event_id, area FROM reading"},
        {"late_after_s": 7.0},
        {"results": "final"},
        {"key": ("event_id", "area")},
        {"of": ("status_changed",)},
    ],
)
def test_another_query_needs_another_version(begun: Begun, changed: dict[str, object]) -> None:
    other = replace(ROW, **changed)  # type: ignore[arg-type]
    for settings in ({}, {"state_partitions": 7}):
        with pytest.raises(WrongViewError, match=r"VIEW_CHANGED: .* with the next version"):
            begun.begin(other, **settings)
    assert begun.commits.exists()
    assert begun.begin(replace(other, version=2)) == ["rebuilding: CHECKPOINT_LOST"]
    # and the first one is still that of its own query
    assert begun.begin() == []


def test_columns_of_another_type_need_another_version(begun: Begun) -> None:
    with pytest.raises(WrongViewError, match="VIEW_CHANGED"):
        begun.begin(columns="event_id bigint")
