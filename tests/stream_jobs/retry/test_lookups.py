"""Payloads that wait for a service: nothing is given up while it is away, each entity's go in their
order once it is back, and it is asked for many of them at once."""

import time
from collections.abc import Iterable, Iterator, Sequence

import orjson
import pytest

from clients.kafka.records import Outgoing, Payload
from shared.events import envelope
from shared.model import NotYet
from stream_jobs.enrich.answers import Answers
from stream_jobs.enrich.enrich_payload import enricher
from stream_jobs.enrich.entity_gate import EntityGate
from stream_jobs.retry import lines
from stream_jobs.waiting.codec import Order
from tests.played_service import PlayedService, Way, answering, good, played, slow
from tests.stream_jobs.asking_flow import FLOW, PORT
from tests.stream_jobs.retry import test_job

PARKED, PASSED, MOVED = "dlq.enrich.v1", "event.passed.v1", "event.moved.v1"


class World(test_job.World):
    topic = "ingest.badge.v1"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch, flow="tests.stream_jobs.asking_flow:FLOW")
        self.relay_is_away = True  # there is no master data of which it could say anything
        self.of_enrich = Answers(FLOW, probes_aside=True, clock_s=self._now_s)
        self.of_retry = Answers(FLOW, clock_s=self._now_s)
        self.in_turn = EntityGate(enricher(FLOW, ask=self.of_enrich.find), self.gates, "go_on")
        self._enrich = enricher(FLOW, ask=self.of_retry.find)
        self._answers, self._fresh, self._master = self.of_retry, test_job.Nothing(), self.master

    def _now_s(self) -> float:
        return self.now_ms / 1000

    def look_ahead(self, payloads: Iterable[Payload]) -> None:
        lines.Worker.look_ahead(self, payloads)  # type: ignore[arg-type]

    def badges(self, *numbers: int) -> list[Outgoing]:
        made = [self.lane(number, value=badge(number)) for number in numbers]
        return [one for own in made for one in own]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World(monkeypatch)
    yield world
    world.of_enrich.close()
    world.of_retry.close()


def badge(number: int) -> bytes:
    return orjson.dumps({"badge": f"b-{number}"})


def holders(made: Sequence[Outgoing]) -> list[str]:
    values = [orjson.loads(one.value or b"") for one in made if one.topic == PASSED]
    return [value["data"]["owner"]["holder"] for value in values]


def asked(service: PlayedService) -> list[str]:
    return [path.rpartition("/")[2] for path in service.paths]


def batches(world: World, count: int, after_s: float = 10) -> list[Outgoing]:
    return [one for _ in range(count) for one in world.batch(after_s=after_s)]


@pytest.mark.parametrize(
    "way",
    [pytest.param(slow, marks=pytest.mark.slow), answering(503), answering(200, b"<html>")],
    ids=["slow", "dead", "lying"],
)
def test_while_a_service_is_away_nothing_is_parked_and_afterwards_all_goes_in_order_and_once(
    world: World, way: Way
) -> None:
    """Its policy would give a payload up after three tries, or ten minutes."""
    with played(way, PORT) as service:
        for answers in (world.of_enrich, world.of_retry):
            for number in range(5):
                with pytest.raises(NotYet):
                    answers.find("owner", f"other-{number}")
        service.paths.clear()
        made = [*world.batch(world.badges(5, 6, 7)), *batches(world, 4, after_s=250)]
        assert [one for one in made if one.topic in (PARKED, PASSED)] == []
        assert len(service.paths) == 4  # one request each finds out whether it is back
        service.way = good
        service.paths.clear()
        made = batches(world, 3)
        assert holders(made) == ["holder of b-5", "holder of b-6", "holder of b-7"]
        assert sorted(asked(service)) == ["b-5", "b-6", "b-7"]
    world.batch()
    assert world.is_empty()


def test_so_it_is_while_nobody_listens(world: World) -> None:
    made = [*world.batch(world.badges(5, 6, 7)), *batches(world, 4, after_s=250)]
    assert [one for one in made if one.topic in (PARKED, PASSED)] == []
    with played(good, PORT):
        made = batches(world, 3)
    assert holders(made) == ["holder of b-5", "holder of b-6", "holder of b-7"]


def test_an_endpoint_that_asks_nobody_goes_on_meanwhile(world: World) -> None:
    world.batch(world.badges(5))
    place = envelope.Position("ingest.contact.v1", 0, 1)
    payload = Payload(place, b"door-2", b'{"open": true}', [], world.now_ms)
    (made,) = world.in_turn(payload, place, world.master)
    assert made.topic == MOVED


def test_one_key_alone_that_fails_is_given_up_in_the_end_and_holds_up_nobody_for_ever(
    world: World,
) -> None:
    def bad_or_good(request: object) -> None:
        (answering(500) if request.key == "b-5" else good)(request)  # type: ignore[attr-defined, arg-type]

    with played(bad_or_good, PORT):
        made = [*world.batch(world.badges(5, 6)), *batches(world, 6)]
    (letter,) = [one for one in made if one.topic == PARKED]
    assert envelope.text(letter.headers, envelope.REASON) == "not_yet"
    detail = envelope.text(letter.headers, envelope.DETAIL)
    assert detail == "owner gives no answer: it answers 500"
    assert holders(made) == ["holder of b-6"]


def test_those_who_wait_are_asked_for_at_once(world: World) -> None:
    world.batch(world.badges(5, 6, 7, 8))
    with played(lambda request: (time.sleep(0.05), good(request))[1], PORT) as service:
        world.batch(after_s=10)
        assert sorted(asked(service)) == ["b-5", "b-6", "b-7", "b-8"]
        assert service.at_once_most > 1


def test_an_operator_has_a_service_asked_again_at_once(world: World) -> None:
    with played(answering(500), PORT) as service:
        lane = world.badges(5)
        assert holders([*world.batch(lane), *world.batch(after_s=10)]) == []
        service.way = good
        assert holders(world.batch(orders=(Order("try", "device-7"),))) == ["holder of b-5"]
