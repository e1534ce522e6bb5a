"""What stands between a terminal and a desk elsewhere."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from desk.letters.selection import Selection
from local_stack import cli
from local_stack.remote import asking
from local_stack.remote.asking import RemoteDesk, remote_desk
from local_stack.remote.letters import RemoteLetters
from local_stack.terminal.errors import StackError

URL, TOKEN, FILE = asking.URL, asking.TOKEN, asking.TOKEN_FILE


def answering(monkeypatch: pytest.MonkeyPatch, answer: httpx.Response | Exception) -> list[Any]:
    asked = []

    def request(method: str, url: str, **what: Any) -> httpx.Response:
        asked.append((method, url, what["headers"], what["trust_env"]))
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(httpx, "request", request)
    return asked


def problem(status: int, code: str) -> httpx.Response:
    return httpx.Response(status, json={"code": code, "detail": "so it is"})


def test_without_an_address_this_machine_is_meant() -> None:
    assert remote_desk({}) is None
    assert remote_desk({URL: ""}) is None


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({URL: "desk.example.org"}, "is no address of a desk"),
        ({URL: "ftp://desk.example.org"}, "is no address of a desk"),
        ({URL: "https://"}, "is no address of a desk"),
        ({URL: "https://[bad"}, "is no address of a desk"),
        ({URL: "https://ann:hr_a_b@desk.example.org"}, "is no address of a desk"),
        ({URL: "http://desk.example.org", TOKEN: "hr_a_b"}, "not sent to desk.example.org"),
        ({URL: "https://desk.example.org", TOKEN: "hr\n_a_b"}, "is none"),
        ({URL: "https://desk.example.org", TOKEN: "hr_ä"}, "is none"),
        ({URL: "https://desk.example.org", FILE: "/nowhere/token"}, "cannot be read"),
    ],
)
def test_what_cannot_be_asked_is_a_sentence(environment: dict[str, str], said: str) -> None:
    with pytest.raises(StackError) as refused:
        remote_desk(environment)
    assert said in refused.value.what
    assert "hr_a_b" not in refused.value.what


def test_a_token_goes_by_tls_or_to_this_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = answering(monkeypatch, httpx.Response(200, json={"jobs": []}))
    file = tmp_path / "token"
    file.write_text("hr_a_b\n")
    for environment in (
        {URL: "https://desk.example.org/", TOKEN: "hr_a_b"},
        {URL: "http://127.0.0.1:8081", FILE: str(file)},
    ):
        desk = remote_desk(environment)
        assert desk is not None
        assert desk.get("jobs") == {"jobs": []}
    assert [one[1] for one in asked] == [
        "https://desk.example.org/api/jobs",
        "http://127.0.0.1:8081/api/jobs",
    ]
    assert {one[2][b"authorization"] for one in asked} == {b"Bearer hr_a_b"}
    # of what is plain text, no proxy that the environment names
    assert [one[3] for one in asked] == [True, False]


def test_an_id_is_one_part_of_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, httpx.Response(200, json={}))
    RemoteDesk("https://desk").get("waiting", "a/b ?#%é")
    assert asked[0][1] == "https://desk/api/waiting/a%2Fb%20%3F%23%25%C3%A9"


@pytest.mark.parametrize(
    ("answer", "said", "fix"),
    [
        (httpx.ConnectError("refused"), "https://desk does not answer: refused", "8081"),
        (httpx.ReadTimeout(""), "does not answer: ReadTimeout", "8081"),
        (httpx.Response(502, text="<html>"), "answers 502, and not as a desk does", "address"),
        (httpx.Response(200, text="<html>"), "answers 200, and not as a desk does", "address"),
        (httpx.Response(307, headers={"location": "/"}), "answers 307", "address"),
        (httpx.Response(404, json={"detail": "Not Found"}), "answers 404", "address"),
        (problem(401, "unauthenticated"), "so it is", TOKEN),
        (problem(403, "may_not"), "so it is", "nothing was changed"),
        (problem(404, "no_job"), "so it is", "jobs list"),
        (problem(503, "store_away"), "so it is", "ask again"),
    ],
)
def test_what_goes_wrong_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, answer: httpx.Response | Exception, said: str, fix: str
) -> None:
    answering(monkeypatch, answer)
    with pytest.raises(StackError) as refused:
        RemoteDesk("https://desk").get("jobs")
    assert said in refused.value.what
    assert fix in refused.value.fix


@pytest.mark.parametrize("lost", ["", ".", ".."])
def test_what_would_leave_its_path_is_refused(monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    asked = answering(monkeypatch, httpx.Response(200, json={}))
    with pytest.raises(StackError, match="is no name and no id"):
        RemoteDesk("https://desk").delete("hooks", lost)
    assert asked == []


@pytest.mark.parametrize("lost", ["", " ", "any", " d-1"])
def test_a_filter_that_a_desk_would_leave_out_is_refused(
    monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """It would mean all of the stage."""
    asked = answering(monkeypatch, httpx.Response(200, json={}))
    letters, meant = RemoteLetters(RemoteDesk("https://desk")), Selection(stage="fold", cause=lost)
    for ask in (
        lambda: letters.book.discard(meant, "ann", "why"),
        lambda: letters.book.page(meant, 10),
        lambda: letters.book.groups("cause", meant, 10),
        lambda: letters.redrives.begin(meant, 1.0, "ann"),
    ):
        with pytest.raises(StackError, match="no desk filters by that"):
            ask()
    assert asked == []


def test_one_letter_that_is_gone_keeps_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "https://desk/api/letters/gone/bytes": problem(404, "no_letter"),
        "https://desk/api/letters/here/bytes": httpx.Response(200, content=b"a"),
        "https://desk/api/redrives": httpx.Response(200, json={"ids": ["here"], "refusals": {}}),
    }
    monkeypatch.setattr(httpx, "request", lambda _method, url, **_what: answers[url])
    letters = RemoteLetters(RemoteDesk("https://desk"))
    sent = letters.redrive(["gone", "here"], "ann", lambda value: value + b"b")
    assert (sent.ids, sent.refusals) == (["here"], {"gone": "so it is"})


def test_an_address_that_is_empty_is_not_this_machine() -> None:
    """As of a variable that is not set."""
    refused = CliRunner().invoke(cli.app, ["--url", "", "jobs", "list"])
    assert isinstance(refused.exception, StackError)
    assert refused.exception.what == "--url is empty"


def test_a_verb_about_this_machine_asks_nobody_elsewhere() -> None:
    refused = CliRunner().invoke(cli.app, ["--url", "https://desk", "status"])
    assert isinstance(refused.exception, StackError)
    assert refused.exception.what == "status is about this machine: it asks no desk elsewhere"
