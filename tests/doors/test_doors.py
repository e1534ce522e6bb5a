"""The domain alone: what becomes of a badge, by what the directory says of it."""

from collections.abc import Iterator

import doors
import orjson
import pytest

from clients.kafka.records import Outgoing, Payload
from shared.events import envelope
from shared.events.envelope import Position, read_event
from shared.model import Event
from stream_jobs.enrich.enrich_payload import enricher
from tests.builders import Master
from tests.doors.directory import PlayedDirectory, played_directory


@pytest.fixture(autouse=True)
def directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedDirectory]:
    with played_directory() as played:
        monkeypatch.setenv("DIRECTORY_URL", played.url)
        asking = doors.Directory()
        monkeypatch.setattr(doors, "_directory", asking)
        yield played
        asking._client.close()


def _made_of(badge: str) -> Outgoing:
    headers = [(envelope.ID, b"p-1"), (envelope.TYPE, b"ingest.badge")]
    value = orjson.dumps({"badge": badge})
    payload = Payload(
        Position("ingest.door.v1", 0, 1), b"door-1", value, headers, 1_700_000_000_000
    )
    (made,) = enricher(doors.FLOW)(payload, Master())
    return made


def test_a_badge_becomes_a_passage_with_its_holder() -> None:
    for badge, holder in (("b-1", "holder of b-1"), ("stranger-1", None)):
        made = _made_of(badge)
        event = read_event(Position(made.topic, 0, 0), made.value or b"")
        assert event.data == {"badge": badge, "holder": holder, "allowed": holder is not None}


def test_a_badge_asks_for_itself_alone_whatever_it_is_called(directory: PlayedDirectory) -> None:
    _made_of("../doors?all")
    assert directory.paths == ["/badges/..%2Fdoors%3Fall"]


def test_while_the_directory_is_away_a_badge_waits_and_not_each_one_asks(
    directory: PlayedDirectory,
) -> None:
    directory.is_away = True
    for _ in range(3):
        made = _made_of("b-1")
        assert made.topic == "retry.enrich.v1"
        assert envelope.text(made.headers, envelope.REASON) == "not_yet"
        assert envelope.find(made.headers, envelope.AWAY) is not None
    assert directory.asked == 1


def test_a_door_knows_who_was_let_in_before_it_opened() -> None:
    state = doors.new_door("door-1")
    moves = [
        ("passage", {"badge": "b-1", "holder": "ann", "allowed": True}),
        ("passage", {"badge": "b-9", "holder": None, "allowed": False}),
        ("moved", {"open": True}),
        ("moved", {"open": True}),
        ("moved", {"open": False}),
    ]
    for number, (kind, data) in enumerate(moves):
        event = Event(f"e-{number}", kind, "door-1", number, number, False, data)
        state = doors.fold(state, event)
    assert state == {
        "door": "door-1",
        "allowed": 1,
        "denied": 1,
        "last_holder": "ann",
        "open": False,
        "opened_by": ["ann"],
    }
