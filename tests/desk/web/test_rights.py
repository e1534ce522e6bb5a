"""What an operator does not see who may not do it."""

from pathlib import Path

import pytest

from desk.web import shell
from desk.web.components import form
from desk.web.rights import for_who_may

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
