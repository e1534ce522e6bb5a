"""`./headrace views` on what a gateway answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from io import BytesIO
from urllib.error import HTTPError

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


def test_a_stream_that_ends_is_asked_for_again_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams = [
        ["retry: 1", "id: 0", "", "id: 1", 'data: {"a":1}', "", ": still here", "id: 2", ""],
        OSError("it is away"),
        ['data: {"b":1}', "id: 3", "", "event: end", "id: 4", "data: {}", ""],
        HTTPError("", 503, "", Message(), BytesIO()),
        HTTPError("", 404, "", Message(), BytesIO(b'{"detail": "no such view"}')),
    ]
    last_ids: list[str | None] = []

    @contextmanager
    def open_stream(_url: str, headers: dict[str, str], _quiet_s: float) -> Iterator[list[str]]:
        last_ids.append(headers.get("last-event-id"))
        found = streams.pop(0)
        if isinstance(found, OSError):
            raise found
        yield found

    monkeypatch.setattr(views, "open_stream", open_stream)
    monkeypatch.setattr(views, "_COME_AGAIN_S", 0)
    rows = views.rows_as_they_come("", {})
    assert [next(rows), next(rows)] == ['{"a":1}', '{"b":1}']
    with pytest.raises(StackError, match="no such view"):
        next(rows)
    assert last_ids == [None, "2", "2", "4", "4"]


@pytest.mark.usefixtures("asked")
def test_what_is_wrong_is_told() -> None:
    with pytest.raises(StackError, match="no such view; there are: by_area"):
        views.show("nothing", limit=5)
    with pytest.raises(StackError, match="has no ="):
        views.show("by_area", ["north"], 5)
