"""Pages as their tree, made of what is worst to show."""

from typing import Any

import pytest

from desk.letters.dry_run import Trial
from desk.letters.render import bytes_shown, plain
from desk.letters.selection import Selection
from desk.pages import hooks, letter_list, letter_page
from desk.pages.site import login_page
from desk.prediction.states import StateTrial
from desk.web.shell import shell
from tests.desk.dom import Element, read

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'&lt;"
ROW = {
    "id": "5c0d6a1e-0000-8000-8000-000000000000",
    "status": "parked",
    "cause": HOSTILE,
    "stage": "enrich",
    "endpoint": HOSTILE,
    "entity_id": HOSTILE,
    "times": 2,
    "first_parked": "2026-11-21",
    "parked_at": "2026-11-22",
    "detail": HOSTILE,
}
GROUP = {"cause": HOSTILE, "letters": 3, "times_most": 1, "first_parked": "a", "parked_at": "b"}
ATTEMPT = {"number": 0, "at": "t", "stage": "enrich", "cause": HOSTILE, "detail": HOSTILE}


def _found(value: bytes) -> dict[str, Any]:
    return {
        **ROW,
        "attempts": [{**ATTEMPT, "software": HOSTILE}],
        "key": HOSTILE,
        "headers": [[HOSTILE, plain(b"\xff")], ["x", HOSTILE]],
        "payload_bytes": bytes_shown(value),
    }


def _letters() -> Element:
    chosen = Selection(status="parked", cause=HOSTILE, up_to="7:9:8")
    content = letter_list.letters(chosen, "cause", [GROUP], [ROW], "t id", 3, "token")
    return read(shell("Letters", *content, csrf="token", signed_in=HOSTILE))


def _letter(value: bytes = HOSTILE.encode(), trial: Trial | None = None) -> Element:
    content = letter_page.letter(_found(value), HOSTILE, "text", trial, "token", "7:9:8")
    return read(shell("Letter", *content, csrf="token", told=HOSTILE))


def _trial() -> Trial:
    state = StateTrial(HOSTILE, HOSTILE, "changes", HOSTILE, None, {HOSTILE: HOSTILE})
    return Trial("event", HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, (state,))


def _webhook() -> Element:
    hook = dict.fromkeys(("why", "url", "of", "types", "where"), HOSTILE)
    others = ("entities", "tenant", "fields", "shape", "order", "delivery", "batch")
    hook |= dict.fromkeys((*others, "concurrency", "per_s", "timeout_s", "made", "waiting"), 1)
    hook |= {"name": "alarms", "state": "active"}
    tries = [{"at_ms": 1, "event_id": HOSTILE, "entity_id": HOSTILE, "said": HOSTILE}]
    content = hooks.listed([hook]) + hooks.told_of(hook, tries, "token")
    return read(shell("Webhook", *content, csrf="token"))


PAGES = {
    "webhook": _webhook(),
    "letters": _letters(),
    "letter": _letter(trial=_trial()),
    "login": read(login_page("token", "wrong", by_provider=True)),
    "audit": read(shell("Audit", *letter_list.audit([{"what": HOSTILE}]), csrf="token")),
}


@pytest.mark.parametrize("name", PAGES)
def test_nothing_that_a_device_sent_is_html(name: str) -> None:
    for element in PAGES[name].all():
        assert element.name not in ("script", "img", "style", "iframe", "object", "svg")
        assert not [one for one in element.attributes if one.startswith("on") or one == "style"]
        for place in ("href", "action", "formaction"):
            assert (element.attributes.get(place) or "/").startswith(("/", "#"))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_needs_no_other_host_and_says_what_it_is(name: str) -> None:
    (sheet,) = PAGES[name].all("link")
    assert sheet.attributes["href"] == "/style.css"
    assert [one.attributes["lang"] for one in PAGES[name].all("html")] == ["en"]
    assert [*PAGES[name].all("title")]
    assert [*PAGES[name].all("main")]


@pytest.mark.parametrize("name", PAGES)
def test_every_field_has_a_name_to_be_read_out_and_every_act_is_a_form(name: str) -> None:
    for one in PAGES[name].all("input", "select", "textarea"):
        if one.attributes.get("type") != "hidden":
            assert one.within("label") or one.attributes.get("aria-label"), one
    for one in PAGES[name].all("button"):
        assert one.within("form")
        assert one.text
    for one in PAGES[name].all():
        assert (one.attributes.get("tabindex") or "0") == "0"  # the order is that of the page


@pytest.mark.parametrize("name", PAGES)
def test_every_form_that_changes_something_has_the_token(name: str) -> None:
    for form in PAGES[name].all("form"):
        assert form.attributes["method"] in ("get", "post")
        assert (form.fields().get("csrf") == "token") == (form.attributes["method"] == "post")


def test_bytes_are_shown_as_they_are() -> None:
    shown = [one.text for one in _letter().all("pre")]
    assert HOSTILE in shown
    assert any(row.startswith("00000000  3c 2f 70 72") for row in shown)


def test_bytes_that_are_no_text_are_shown_in_hex_alone() -> None:
    found = _letter(b"\xff\xfe\x00")
    assert [one.text for one in found.all("summary")][:-1] == ["Hex"]
    assert "00000000  ff fe 00" in next(found.all("pre")).text


def test_what_is_typed_stays_in_its_field() -> None:
    (field,) = _letter().all("textarea")
    assert field.text == "\n" + HOSTILE


def test_a_trial_shows_the_event_and_the_state() -> None:
    text = _letter(trial=_trial()).text
    assert "It would become this event." in text
    assert "changes" in text


def test_what_is_done_to_all_is_done_to_what_was_shown_and_links_lead_to_what_there_is() -> None:
    for page_, actions in (
        (PAGES["letters"], ("/redrive", "/discard")),
        (_letter(), ("/discard",)),
    ):
        bound = {f.attributes["action"]: f.fields().get("up_to") for f in page_.all("form")}
        assert [bound[action] for action in actions] == ["7:9:8"] * len(actions)
        assert not [a for a in page_.all("a") if "up_to" in str(a.attributes["href"])]
