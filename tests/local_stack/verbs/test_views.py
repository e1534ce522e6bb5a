"""`./headrace views` on what a gateway answers."""

import pytest
from typer.testing import CliRunner

from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output
from local_stack.verbs import views

TOLD = {"watermark": None, "late": 0, "pipeline_lag_s": 0.5, "stale": True, "stale_because": "why"}
LISTED = [
    {"name": name, "of": ["reading"], "key": ["area"], "results": "update", "version": 1, **TOLD}
    for name in ("by_area", "hot")
]
ROW = {"area": "north", "readings": 7, "_meta": {"version": 3, "closed": False}}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    paths: list[str] = []

    def ask(url: str, _token: str | None = None) -> tuple[int, object]:
        path = url.removeprefix("http://gateway")
        paths.append(path)
        if path == "/views":
            return 200, {"views": LISTED}
        if path.startswith("/views/by_area?"):
            return 200, {"view": "by_area", "rows": [ROW], "next": "abc", **TOLD}
        return 404, {"detail": "no such view; there are: by_area", "code": "unknown_view"}

    monkeypatch.setattr(views, "ask", ask)
    monkeypatch.setattr(views, "running_stack", lambda _: {"gateway_url": "http://gateway"})
    return paths


def test_views_are_listed(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    views.list_()
    head, _, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["name", "of", "key"]
    assert [line.split()[0] for line in lines] == ["by_area", "hot"]
    assert asked == ["/views"]


def test_rows_are_shown_with_how_to_go_on(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    views.show("by_area", ["area=north", "closed=true"], 5)
    told = capsys.readouterr().out
    assert "north  7" in told
    assert "--where next=abc" in told
    assert "The view is behind: why" in told
    assert asked == ["/views/by_area?area=north&closed=true&limit=5"]
    views.show("by_area", limit=5, output=Output.JSON)
    assert '"closed": false' in capsys.readouterr().out


def test_rows_are_shown_in_an_order(asked: list[str]) -> None:
    done = CliRunner().invoke(views.app, ["show", "by_area", "--sort", "-highest", "--limit", "10"])
    assert (done.exit_code, asked) == (0, ["/views/by_area?sort=-highest&limit=10"])


@pytest.mark.usefixtures("asked")
def test_what_is_wrong_is_told() -> None:
    with pytest.raises(StackError, match="no such view; there are: by_area"):
        views.show("nothing", limit=5)
    with pytest.raises(StackError, match="has no ="):
        views.show("by_area", ["north"], 5)
