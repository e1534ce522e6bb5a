"""`./headrace views` on what a gateway answers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from io import BytesIO
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qsl

import pytest
from typer.testing import CliRunner

from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output
from local_stack.verbs import views

TOLD = {"watermark": None, "late": 0, "pipeline_lag_s": 0.5, "stale": True, "stale_because": "why"}
LISTED = [
    {
        "name": name,
        "version": version,
        "shown": version == 1,
        "of": ["reading"],
        "key": ["area"],
        "results": "update",
        **TOLD,
    }
    for name, version in (("by_area", 1), ("by_area", 2), ("hot", 1))
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
    assert head.split()[:4] == ["name", "version", "of", "key"]
    assert [line.split()[:2] for line in lines] == [
        ["by_area", "1"],
        ["by_area", "2"],
        ["hot", "1"],
    ]
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


class Pages:
    """Of two versions of a view, a row to a page."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
        self.read_to = {1: "1970-01-01T00:00:01Z", 2: "1970-01-01T00:00:01Z"}
        self.asked = 0
        monkeypatch.setattr(views, "_asked", self.answer)
        monkeypatch.setattr(views, "_COME_AGAIN_S", 0)

    def answer(self, path: str, _folder: object) -> Any:
        if path == "/views":
            return {"views": LISTED}
        asked = dict(parse_qsl(path.partition("?")[2]))
        self.asked += 1
        version, at = int(asked["version"]), int(asked.get("next", 0))
        more = str(at + 1) if at + 1 < len(self.rows[version]) else None
        return {
            "rows": self.rows[version][at : at + 1],
            "next": more,
            "read_to": self.read_to[version],
        }

    def diff(self, *options: str) -> tuple[int, str]:
        done = CliRunner().invoke(views.app, ["diff", *options])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output


def test_two_versions_of_a_view_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = Pages(monkeypatch)
    areas = [{"area": name, "readings": 7, "_meta": {"version": 3}} for name in "ab"]
    pages.rows = {1: areas, 2: [*areas]}
    assert pages.diff("by_area") == (0, "by_area: 2 rows alike, 0 differ.\n")
    pages.rows[2][1] = {**areas[1], "readings": 8, "lowest": 1}
    code, told = pages.diff("by_area")
    assert (code, told.splitlines()) == (
        1,
        [
            'area="b"',
            '  version 1: {"readings": 7}',
            '  version 2: {"readings": 8}',
            "Only version 2 has lowest.",
            "by_area: 1 rows alike, 1 differ.",
        ],
    )
    code, told = pages.diff("by_area", "-o", "json", "--limit", "0")
    assert (code, json.loads(told)["different"], json.loads(told)["differences"]) == (1, 1, [])


def test_what_changes_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = Pages(monkeypatch)
    pages.rows = {1: [ROW], 2: [{**ROW, "_meta": {"version": 2000}}]}
    code, told = pages.diff("by_area")
    assert (code, pages.asked) == (1, 10)
    assert "1 more cannot be compared" in told


def test_what_cannot_be_compared_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pages = Pages(monkeypatch)
    for options, wrong in (
        (["hot"], "no other version"),
        (["by_area", "--to", "3"], "no version 3"),
        (["by_area", "--where", "closed=true"], "not compared by closed"),
        (["by_area", "--where", "sort=readings"], "not compared by sort"),
        (["cold"], "there is no view cold"),
    ):
        done = CliRunner().invoke(views.app, ["diff", *options])
        assert isinstance(done.exception, StackError)
        assert wrong in str(done.exception)
    assert pages.asked == 0


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
