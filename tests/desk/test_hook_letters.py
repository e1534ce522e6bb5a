"""What a webhook could not be given: its dead letters, on a real broker and PostgreSQL."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import orjson
import pytest
from typer.testing import CliRunner

from desk.hooks.service import HookDesk
from desk.letters import redrive
from desk.letters.redrive_store import RedriveBook
from desk.letters.selection import Selection
from desk.letters.store import open_book
from local_stack import cli
from local_stack.terminal.errors import StackError
from shared.events.envelope import Position, event_headers, event_value
from shared.forwarding.hook import Status, status_key, status_record
from shared.topic_names import HOOK_TOPIC
from stream_jobs.forward.delivery import Delivery, dead_letter
from tests.builders import event_record
from tests.desk import dom
from tests.desk.desk_room import Room

pytestmark = pytest.mark.stack
URL = "https://example.org/in"
GIVEN_UP = ("not_delivered", "status 422")


@pytest.fixture
def hooks(room: Room, monkeypatch: pytest.MonkeyPatch) -> Iterator[HookDesk]:
    """There are two, and letters of both."""
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", room.settings.kafka_bootstrap)
    monkeypatch.setenv("HEADRACE_POSTGRES_URL", room.settings.postgres_url.get_secret_value())
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(room.settings.state_dir))
    found = HookDesk(room.settings, partial(open_book, room.settings))
    for name in ("alarms", "others"):
        found.add(name, {"url": URL}, by="ann")
    for offset in range(3):
        give_up(room, "alarms", offset, f"device-{offset % 2:04}")
    give_up(room, "others", 0)
    room.park(7)
    room.index()
    yield found
    for told in found.all():
        found.delete(told["name"], by="ann")


def give_up(
    room: Room, hook: str, offset: int, entity: str = "device-0000", why: tuple[str, str] = GIVEN_UP
) -> None:
    """As forward does it."""
    one = event_record(offset, entity_id=entity)
    place = Position("event.reading.v1", 0, offset)
    headers = event_headers(one)
    delivery = Delivery(hook, place, entity.encode(), event_value(one), headers, 1)
    topic, key, value, made = dead_letter(delivery, 9, *why)
    room.write(topic, key or b"", value, [*made])


def run(*arguments: str) -> Any:
    done = CliRunner().invoke(cli.app, [*arguments, "-o", "json"])
    if isinstance(done.exception, StackError):
        return done.exception.what
    assert done.exit_code == 0, done.exception
    return orjson.loads(done.stdout)


def work(room: Room, number: int) -> list[tuple[str, str]]:
    """What the desk's own process does with a redrive; which events it has sent to which hook."""
    while redrive.step(room.ann, RedriveBook(room.book), number, 100):
        pass
    sent = []
    for topic, value, headers in room.sent():
        told = dict(headers)
        # beside what is new
        assert (topic, told["ce_replay"], told["ce_attempt"]) == ("again.forward.v1", b"1", b"1")
        sent.append((told["ce_hook"].decode(), orjson.loads(value)["id"]))
    return sorted(sent)


def parked(room: Room) -> int:
    return room.book.count(Selection(status="parked"))


@pytest.mark.usefixtures("hooks")
def test_letters_are_selected_by_their_webhook() -> None:
    assert len(run("letters", "list", "--hook", "alarms")) == 3
    assert [row["hook"] for row in run("letters", "list", "--hook", "others")] == ["others"]
    counted = {row["hook"]: row["letters"] for row in run("letters", "list", "--by", "hook")}
    assert counted == {"alarms": 3, "others": 1, None: 1}


@pytest.mark.usefixtures("hooks")
def test_all_that_one_webhook_could_not_be_given_is_sent_to_it_once_more(room: Room) -> None:
    begun = run("hooks", "replay", "alarms", "--failed")
    assert begun["letters"] == 3
    assert work(room, begun["redrive"]) == [("alarms", f"event-{n}") for n in range(3)]
    assert parked(room) == 2
    assert run("hooks", "replay", "alarms", "--failed")["letters"] == 0
    # it fails once more: the same letter, which can be sent again
    give_up(room, "alarms", 0)
    room.index()
    assert parked(room) == 2  # that was read before


@pytest.mark.usefixtures("hooks")
def test_of_them_a_part_by_time_and_by_entity() -> None:
    replay = ("hooks", "replay", "alarms", "--failed")
    assert run(*replay, "--until", "1h")["letters"] == 0
    assert run(*replay, "--since", "1h", "--entity", "device-0001")["letters"] == 1
    assert run("hooks", "replay", "alarms") == "since when?"


@pytest.mark.parametrize("state", ["ended", "unknown", "paused"])
def test_where_the_webhook_takes_nothing_it_says_so_and_no_letter_changes(
    room: Room, hooks: HookDesk, state: str
) -> None:
    replay = ("hooks", "replay", "alarms", "--failed")
    if state == "paused":  # it waits there
        hooks.pause("alarms", by="ann")
        assert run(*replay)["letters"] == 3
        return
    if state == "ended":
        (hook,) = (one for one in hooks._read()[0].all() if one.name == "alarms")
        said = Status(state="ended", why="status 410", at_ms=1, revision=hook.revision)
        room.write(HOOK_TOPIC, status_key("alarms"), status_record(said), [])
        room._unread -= 1
        assert run(*replay) == "alarms has ended: delete it, and add it anew"
    else:
        hooks.delete("alarms", by="ann")
        assert run(*replay) == "there is no hook alarms"
    assert not RedriveBook(room.book).latest()
    assert (parked(room), room.sent()) == (5, [])


@pytest.mark.usefixtures("hooks")
def test_a_program_does_it_by_the_api(room: Room) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        replay = "/api/hooks/alarms/replay"
        none = await http.post(replay, json={"failed": True, "until": "2020-01-01T00:00:00Z"})
        assert (none.status_code, none.json()["letters"]) == (202, 0)
        wrong = await http.post(replay, json={"failed": True, "since": "soon"})
        assert (wrong.status_code, wrong.json()["code"]) == (400, "bad_time")
        assert (await http.post(replay, json={})).json()["code"] == "no_since"
        assert (
            await http.post("/api/hooks/nobody/replay", json={"failed": True})
        ).status_code == 404
        begun = (await http.post(replay, json={"failed": True})).json()
        assert begun["letters"] == 3
        assert len(work(room, begun["redrive"])) == 3

    room.ask(steps)


@pytest.mark.usefixtures("hooks")
def test_the_button_of_its_page_means_the_letters_that_the_page_counted(room: Room) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        page = dom.read((await http.get("/webhooks/alarms")).text)
        (form,) = (one for one in page.all("form") if "Send them once more" in one.text)
        assert "All 3 that it could not be given" in form.text
        give_up(room, "alarms", 9)
        room.index()
        fields = {**form.fields(), "failed": "yes"}
        told = await http.post(str(form.attributes["action"]), data=fields)
        assert "3 letters go to alarms once more" in told.text
        (begun,) = RedriveBook(room.book).latest()
        assert work(room, begun.id) == [("alarms", f"event-{n}") for n in range(3)]

    room.ask(steps)


@pytest.mark.usefixtures("hooks")
def test_letters_of_before_they_knew_their_webhook_learn_it_and_stay_what_they_are(
    room: Room,
) -> None:
    begun = run("hooks", "replay", "others", "--failed")
    work(room, begun["redrive"])
    room.admin.execute("UPDATE headrace.letter SET hook = NULL")
    give_up(room, "alarms", 0)  # what is read again
    give_up(room, "others", 0)
    room.index()
    assert {row["status"] for row in run("letters", "list", "--hook", "alarms")} == {"parked"}
    (other,) = run("letters", "list", "--hook", "others", "--status", "any")
    assert (other["status"], other["times"]) == ("redriven", 1)
