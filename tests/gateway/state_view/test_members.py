"""Who counts as one of the gateways, as looks at Kafka's group follow each other."""

import pytest

from gateway.state_view import members
from gateway.state_view.members import Members
from shared.settings import GatewaySettings

OWN, OTHER, THIRD = (f"http://10.0.0.{number}:8000" for number in (1, 2, 3))


class Consumer:
    def subscribe(self, *_: object, **__: object) -> None: ...


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Members:
    monkeypatch.setattr(members, "admin", lambda _: None)
    monkeypatch.setattr(members, "asker", lambda *_: Consumer())
    return Members(GatewaySettings().kafka, OWN)


def test_one_that_is_away_for_long_is_gone(known: Members) -> None:
    known.note({OWN, OTHER}, 100.0)
    assert (known.is_one, known.there) == (True, [OWN, OTHER])
    known.note({OWN}, 102.0)
    known.note({OWN}, 113.9)
    assert known.there == [OWN, OTHER]
    known.note({OWN}, 114.1)
    assert known.there == [OWN]


def test_one_that_is_back_in_time_was_never_gone(known: Members) -> None:
    known.note({OWN, OTHER}, 100.0)
    known.note({OWN}, 102.0)
    known.note({OWN, OTHER, THIRD}, 110.0)
    known.note({OWN, THIRD}, 113.0)
    known.note({OWN, THIRD}, 124.0)
    assert known.there == [OWN, OTHER, THIRD]


def test_nobody_is_gone_as_long_as_this_one_is_no_member_itself(known: Members) -> None:
    """After an outage of Kafka all of them join anew."""
    known.note({OWN, OTHER}, 100.0)
    for now_s in (102.0, 120.0, 200.0):
        known.note(set(), now_s)
    assert (known.is_one, known.there) == (False, [OWN, OTHER])
    known.note({OWN}, 201.0)
    known.note({OWN}, 212.0)
    assert known.there == [OWN, OTHER], "it has as long to join as any"
    known.note({OWN}, 213.1)
    assert known.there == [OWN]
