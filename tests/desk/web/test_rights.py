"""What an operator does not see who may not do it."""

import re
from pathlib import Path

import pytest

from desk.letters.selection import Selection
from desk.pages import letter_list, waiting
from desk.web import shell
from desk.web.components import form
from desk.web.rights import for_who_may

WAITS = ("reason", "detail", "tries", "next_try")
STYLE = Path(shell.__file__).with_name("style.css").read_text()


@pytest.mark.parametrize(
    ("action", "needs"),
    [
        ("/letters/a/try#trial", None),
        ("/logout", None),
        ("/jobs/fold/pause", "for-operate"),
        ("/redrive", "for-operate"),
        ("/credentials", "for-administer"),
        ("/whatever-comes-later", "for-administer"),
    ],
)
def test_a_form_says_for_whom_it_is(action: str, needs: str | None) -> None:
    assert ("class=" in form(action, "")) is (needs is not None)
    assert needs is None or f'class="{needs}"' in form(action, "")


@pytest.mark.parametrize(
    ("may", "hidden"),
    [("look", ["operate", "administer"]), ("operate", ["administer"]), ("administer", [])],
)
def test_a_page_hides_what_is_for_others(may: str, hidden: list[str]) -> None:
    assert f'<body class="may-{may}">'.encode() in shell.shell("Jobs", csrf="", may=may)
    rule = next(line for line in STYLE.splitlines() if line.startswith(".may-look .for-"))
    selectors = rule.partition("{")[0].split(",")
    found = [
        one.split(".for-")[1].strip() for one in selectors if one.strip().startswith(f".may-{may} ")
    ]
    assert found == hidden
    assert "display: none" in rule


def test_where_nobody_is_asked_all_is_shown() -> None:
    assert b"<body>" in shell.shell("Jobs", csrf="")
    assert for_who_may("look") is None


def test_what_is_listed_is_for_all_and_what_sends_it_is_not() -> None:
    letter = {**dict.fromkeys(("cause", "stage", "endpoint", "times", "parked_at"), "x")}
    row = {**letter, "id": "5c0d6a1e", "entity_id": "d-7", "status": "parked"}
    waits = {"entity_id": "d-7", "alone": None, "stage": "enrich", "payloads": 1, "since": "x"}
    letters = letter_list.letters(Selection(), "cause", [], [row], None, 1, "")
    whose = waiting.to_order([{**waits, **dict.fromkeys(WAITS, "x")}], "enrich", "")
    for shown in ("".join(letters), str(whose)):
        hidden = re.findall(r'<(\w+) class="for-operate">(.*?)</\1>', shown, re.DOTALL)
        assert "d-7" in shown
        assert hidden
        assert not any("d-7" in inside for _, inside in hidden)
