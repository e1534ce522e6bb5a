"""Who is in, and until when."""

import pytest

from desk.sign_in import sessions
from desk.sign_in.sessions import Identity, Sessions

ANN, BOB = Identity("ann", "look"), Identity("bob", "administer")


def test_a_session_is_its_owners_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr(sessions.time, "monotonic", lambda: now_s)
    held = Sessions(60)
    ann, bob = held.begin(ANN), held.begin(BOB)
    assert (held.find(ann), held.find(bob), held.find("")) == (ANN, BOB, None)
    held.end(ann)
    assert (held.find(ann), held.find(bob)) == (None, BOB)
    now_s += 61
    assert held.find(bob) is None


def test_the_oldest_of_one_goes_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_MOST_OF_ONE", 3)
    held = Sessions(60)
    bob = held.begin(BOB)
    keys = [held.begin(ANN) for _ in range(5)]
    assert [held.find(key) is not None for key in keys] == [False, False, True, True, True]
    assert held.find(bob) == BOB
