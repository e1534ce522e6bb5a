"""The domain alone: what becomes of a badge, by what the directory says of it."""

import doors
import pytest

from shared.lookups.given_data import GivenData
from shared.model import Arrival, Event, Fields, NotYet

ARRIVAL = Arrival("door-1", 1_700_000_000_000)
DIRECTORY = {"b-1": {"holder": "ann"}, "b-2": NotYet("directory is away", away=True)}


def passage_of(badge: str) -> Fields:
    known = GivenData(services={"directory": DIRECTORY})
    return doors.to_passage({"badge": badge}, ARRIVAL, known).data


def test_a_badge_becomes_a_passage_with_its_holder() -> None:
    assert passage_of("b-1") == {"badge": "b-1", "holder": "ann", "allowed": True}


def test_a_badge_that_nobody_has_is_denied() -> None:
    assert passage_of("stranger") == {"badge": "stranger", "holder": None, "allowed": False}


def test_a_badge_waits_while_the_directory_is_away() -> None:
    with pytest.raises(NotYet, match="is away"):
        passage_of("b-2")


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
