"""Which parts a gateway takes, gives up, and holds on to until others have them."""

import pytest

from gateway.state_view import own_divided_parts
from gateway.state_view.holders import ranked
from gateway.state_view.own_divided_parts import OwnDividedParts
from gateway.state_view.own_parts import WholeCopy
from gateway.state_view.parts import part_of
from shared.settings import GatewaySettings

TOPIC = "state.device.v1"
OWN, *OTHERS = ALL = [f"http://127.0.0.1:{port}" for port in (1, 2, 3)]
URL_OF = {"second": OTHERS[0], "third": OTHERS[1]}
PARTS = [part_of(TOPIC, number) for number in range(40)]


class Known:
    """In place of Kafka's group."""

    def __init__(self) -> None:
        self.is_one = False
        self.there: list[str] = []

    def be(self, gateways: list[str]) -> None:
        self.is_one, self.there = OWN in gateways, gateways


class Share(OwnDividedParts):
    """Others hold what is said here."""

    def __init__(self) -> None:
        settings = GatewaySettings(state_copies=2, peer_url=OWN, peer_token="t")  # type: ignore[arg-type]
        super().__init__([TOPIC], settings)

    def hold(self, **parts: str) -> None:
        self._held = {URL_OF[name]: frozenset([part]) for name, part in parts.items()}


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Known:
    its = Known()
    monkeypatch.setattr(own_divided_parts, "Members", lambda *_: its)
    return its


@pytest.fixture
def share(known: Known) -> Share:
    del known  # which it knows the others by
    return Share()


def test_it_takes_what_it_is_among_the_first_for(known: Known, share: Share) -> None:
    known.be(ALL)
    for part in PARTS:
        assert share.takes(part, is_held=False) == (OWN in ranked(ALL, part)[:2])


def test_what_is_not_divided_each_gateway_takes(known: Known, share: Share) -> None:
    topics = [f"{name}.v1" for name in ("state.area", "job.status", "credential", "view.hot")]
    assert all(share.takes(topic, is_held=False) for topic in topics)
    known.be(ALL)
    assert all(share.takes(topic, is_held=False) for topic in topics)


def test_it_holds_on_to_what_others_have_not_read_yet(known: Known, share: Share) -> None:
    known.be(ALL)
    part = next(part for part in PARTS if OWN not in ranked(ALL, part)[:2])
    assert share.takes(part, is_held=True)
    share.hold(second=part)
    assert share.takes(part, is_held=True), "the third one has it not"
    share.hold(second=part, third=part)
    assert not share.takes(part, is_held=True)


def test_as_long_as_it_is_none_of_them_it_keeps_what_it_has_and_takes_nothing(
    known: Known, share: Share
) -> None:
    known.be(OTHERS)
    share.hold(second=PARTS[0], third=PARTS[0])
    assert [share.takes(PARTS[0], is_held=held) for held in (True, False)] == [True, False]
    assert share.gateways == OTHERS, "these can be asked all the same"


def test_topics_are_parts_as_wholes_or_by_partition(share: Share) -> None:
    assert [*share.parts(TOPIC, {1, 0})] == [(part_of(TOPIC, 0), {0}), (part_of(TOPIC, 1), {1})]
    assert [*share.parts("state.area.v1", {1, 0})] == [("state.area.v1", {0, 1})]
    assert [*WholeCopy().parts(TOPIC, {1, 0})] == [(TOPIC, {0, 1})]


def test_it_tells_why_states_may_be_held_less_often(known: Known, share: Share) -> None:
    assert "does not count this gateway, http://127.0.0.1:1" in share.trouble
    known.be([OWN])
    assert "held by 2 gateways, but Kafka counts 1" in share.trouble
    known.be(ALL)
    share.hold(second=PARTS[0], third=PARTS[0])
    assert share.trouble == ""
    share._held = {**share._held, OTHERS[1]: None}
    assert share.trouble == f"does not tell which states it holds: {OTHERS[1]}"
    assert share.takes(PARTS[0], is_held=True), "who does not answer may hold nothing"
