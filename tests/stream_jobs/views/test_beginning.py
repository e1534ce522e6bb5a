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

    def begin(self, row: View = ROW, **settings: int) -> list[str]:
        self.said = []
        its = self._settings.model_copy(update=settings)
        begin_where_it_fits(row, its, lambda state, why="", *_: self.said.append(f"{state}: {why}"))
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
    other_words = replace(ROW, sql="SELECT   event_id\nFROM reading")
    assert begun.begin(other_words) == []
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
    ],
)
def test_another_query_needs_another_version(begun: Begun, changed: dict[str, object]) -> None:
    other = replace(ROW, **changed)  # type: ignore[arg-type]
    with pytest.raises(WrongViewError, match=r"VIEW_CHANGED: .* give its row version=2"):
        begun.begin(other)
    assert begun.commits.exists()
    assert begun.begin(replace(other, version=2)) == ["rebuilding: VIEW_CHANGED"]
    begun.has_worked()
    assert begun.begin(replace(other, version=2)) == []
