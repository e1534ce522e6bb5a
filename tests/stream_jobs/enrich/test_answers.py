"""What a service answers, and what becomes of payloads where it is slow, lies, or is dead."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest
from typing_extensions import TypedDict

from clients.kafka.records import Outgoing, Payload
from shared.events import envelope
from shared.events.envelope import Position, read_event
from shared.flow_table import Flow
from shared.lookups import HttpLookup
from shared.model import Arrival, Draft, Endpoint, Entity, EventType, MasterData, NotYet
from shared.retry_policy import RetryPolicy
from stream_jobs.enrich.answers import Answers
from stream_jobs.enrich.enrich_payload import enricher
from stream_jobs.enrich.service_request import NoAnswerError, client, request
from tests.builders import Master
from tests.kafka_log import eventually
from tests.played_service import (
    PlayedService,
    Request,
    Way,
    answering,
    busy,
    dripping,
    good,
    hangs_up,
    nobody,
    played,
    slow,
)


class Owner(TypedDict):
    holder: str


def _ask(payload: dict[str, Any], arrival: Arrival, master: MasterData) -> Draft:
    found = master.answers("directory", payload["keys"])
    return Draft("asked", arrival.at_ms, {"found": found})


def _ask_on(payload: dict[str, Any], arrival: Arrival, master: MasterData) -> Draft:
    """By what it was answered."""
    owner = master.answer("directory", payload["key"])
    boss = master.answer("directory", owner["holder"])
    return Draft("asked", arrival.at_ms, {"boss": boss["holder"]})


def _ask_or_else(payload: dict[str, Any], arrival: Arrival, master: MasterData) -> Draft:
    try:
        owner = master.answer("directory", payload["key"])
    except NotYet:
        owner = {"holder": "unknown"}
    return Draft("asked", arrival.at_ms, owner)


class World:
    """enrich, as its job calls it: a batch of payloads at a time."""

    def __init__(self, url: str, *, probes_aside: bool = False, **changes: Any) -> None:
        lookup = HttpLookup("directory", f"{url}/badges/{{key}}", answer=Owner, within_s=5)
        lookup = replace(lookup, **changes)
        row = Endpoint("ask", _ask, ("asked",), lookups=(lookup,), retry=RetryPolicy())
        self.flow = Flow(
            endpoints=(
                row,
                replace(row, name="ask_on", enrich=_ask_on),
                replace(row, name="ask_or_else", enrich=_ask_or_else),
                Endpoint("silent", _ask, ("asked",)),
            ),
            event_types=(EventType("asked"),),
            entities=(Entity("order", ("asked",), lambda _: {}, lambda state, _: state),),
        )
        self.now_s = 100.0
        self.answers = Answers(self.flow, probes_aside=probes_aside, clock_s=lambda: self.now_s)
        self.enrich = enricher(self.flow, ask=self.answers.find)

    def batch(self, *bodies: dict[str, Any], to: str = "ask") -> Sequence[Outgoing]:
        payloads = [
            Payload(
                Position(f"ingest.{to}.v1", 0, number),
                b"d-1",
                orjson.dumps(body),
                [(envelope.TYPE, f"ingest.{to}".encode())],
                1_700_000_000_000,
            )
            for number, body in enumerate(bodies)
        ]
        self.answers.look_ahead(self.enrich, payloads, Master())
        return [made for one in payloads for made in self.enrich(one, Master())]

    def asks(self, *keys: str) -> Outgoing:
        (made,) = self.batch({"keys": keys})
        return made


@pytest.fixture
def directory() -> Iterator[PlayedService]:
    with played() as service:
        yield service


@pytest.fixture
def world_of() -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def world(url: str, **changes: Any) -> World:
        made.append(World(url, **changes))
        return made[-1]

    yield world
    for one in made:
        one.answers.close()


@pytest.fixture
def world(directory: PlayedService, world_of: Callable[..., World]) -> World:
    return world_of(directory.url)


def data_of(made: Outgoing) -> Any:
    return read_event(Position(made.topic, 0, 0), made.value or b"").data


def found_in(made: Outgoing) -> Any:
    return data_of(made)["found"]


def why(made: Outgoing) -> tuple[str, str, bool]:
    """Where it went, what is told of it, and whether the service counts as away."""
    told = envelope.text(made.headers, envelope.DETAIL) or ""
    return made.topic, told, envelope.find(made.headers, envelope.AWAY) is not None


def test_a_batch_of_a_thousand_payloads_with_fifty_keys_asks_fifty_times(
    world: World, directory: PlayedService
) -> None:
    directory.way = busy
    made = world.batch(*({"keys": [f"b-{number % 50}"]} for number in range(1000)))
    assert {one.topic for one in made} == {"event.asked.v1"}
    assert found_in(made[60]) == {"b-10": {"holder": "holder of b-10"}}
    assert len(directory.paths) == len(set(directory.paths)) == 50
    assert 1 < directory.at_once_most <= 8


def test_the_keys_of_one_payload_are_asked_at_once_too(
    world: World, directory: PlayedService
) -> None:
    directory.way = busy
    world.asks(*(f"b-{number}" for number in range(8)))
    assert directory.at_once_most > 1


def test_never_more_are_asked_at_once_than_the_row_says(
    directory: PlayedService, world_of: Callable[..., World]
) -> None:
    directory.way = busy
    world = world_of(directory.url, at_once_max=3)
    world.asks(*(f"b-{number}" for number in range(9)))
    assert (len(directory.paths), directory.at_once_most) == (9, 3)


def test_what_is_not_known_there_is_an_answer(world: World) -> None:
    assert found_in(world.asks("stranger-1")) == {"stranger-1": None}


def test_an_answer_is_used_again_as_long_as_the_row_says(
    world: World, directory: PlayedService
) -> None:
    def asked_after(seconds: float) -> int:
        world.now_s += seconds
        world.asks("b-1", "stranger-1")
        return len(directory.paths)

    assert [asked_after(s) for s in (0, 9, 2, 48, 2)] == [2, 2, 3, 4, 5]


def test_an_answer_that_is_never_used_again_holds_for_its_batch(
    directory: PlayedService, world_of: Callable[..., World]
) -> None:
    world = world_of(directory.url, fresh_for_s=0, absent_for_s=0)
    for _ in range(2):
        world.now_s += 1
        world.batch({"keys": ["b-1"]}, {"keys": ["b-1"]})
    assert len(directory.paths) == 2


def test_the_oldest_answers_go_where_they_take_too_much_memory(
    directory: PlayedService, world_of: Callable[..., World]
) -> None:
    world = world_of(directory.url, answer_bytes_max=500, kept_bytes_max=1000)
    for keys in (["b-1"], ["b-2"], ["b-3"], ["b-4"], ["b-5"], ["b-5"], ["b-1"]):
        world.asks(*keys)
    assert [path[-3:] for path in directory.paths] == ["b-1", "b-2", "b-3", "b-4", "b-5", "b-1"]


def test_a_service_is_asked_by_what_it_answered_and_at_once_as_well(
    world: World, directory: PlayedService
) -> None:
    both = threading.Barrier(2)

    def for_the_boss_of_both(request: Request) -> None:
        if request.key.startswith("holder"):
            both.wait(timeout=10)
        good(request)

    directory.way = for_the_boss_of_both
    made = world.batch({"key": "b-1"}, {"key": "b-2"}, {"key": "b-1"}, to="ask_on")
    bosses = [f"holder of holder%20of%20b-{number}" for number in (1, 2, 1)]
    assert [data_of(one)["boss"] for one in made] == bosses
    assert len(directory.paths) == 4


@pytest.mark.parametrize("key", ["../doors?all", "a/b#c", "%2e%2e", "ü \n", "@evil.example:80"])
def test_a_key_asks_for_itself_alone_whatever_it_is_called(
    world: World, directory: PlayedService, key: str
) -> None:
    world.asks(key)
    ((empty, badges, asked),) = [path.split("/") for path in directory.paths]
    assert (empty, badges) == ("", "badges")
    assert not {*asked} & {*"/?#@: "}
    assert directory.heads[0]["host"] == directory.url.removeprefix("http://")


@pytest.mark.parametrize("key", ["", ".", "..", "x" * 501])
def test_a_key_that_would_be_another_path_is_a_dead_letter_and_asks_nobody(
    world: World, directory: PlayedService, key: str
) -> None:
    topic, told, _ = why(world.asks(key))
    assert topic == "dlq.enrich.v1"
    assert told.startswith("directory cannot be asked: the key ")
    assert directory.paths == []


def test_the_event_says_when_each_answer_came_and_has_the_same_id_whenever_that_was(
    world: World,
) -> None:
    def record() -> Any:
        made = world.asks("b-1", "stranger-1")
        return read_event(Position(made.topic, 0, 0), made.value or b"")

    first = record()
    assert {*first.saw} == {"directory/b-1", "directory/stranger-1"}
    assert record().saw == first.saw
    world.now_s += 3600
    later = record()
    assert later.id == first.id
    assert later.saw["directory/b-1"] > first.saw["directory/b-1"]


def test_headers_of_the_row_are_sent(
    directory: PlayedService, world_of: Callable[..., World]
) -> None:
    world = world_of(directory.url, headers={"authorization": "Bearer abc"})
    world.asks("b-1")
    assert directory.heads[0]["authorization"] == "Bearer abc"
    assert "Bearer" not in repr(world.flow)


LIES: dict[str, tuple[Way, str]] = {
    "no JSON": (answering(200, b"<html>"), "its answer is no JSON"),
    "a broken contract": (answering(200, b'{"holder": 7}'), "wrong_type: holder"),
    "too much": (answering(200, b" " * 70_000 + b"{}"), "more than 65536 bytes"),
    "what no text may hold": (answering(200, b'{"holder": "\\u0000"}'), "stored nowhere"),
    "another status": (answering(302), "it answers 302"),
    "a fault": (answering(500), "it answers 500"),
    "nothing": (hangs_up, "RemoteProtocolError"),
    "too late": (slow, "no answer within 0.2 s"),
    "a byte at a time": (dripping, "no answer within 0.2 s"),
    "no right": (answering(403), "it answers 403"),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_is_no_answer_has_the_payload_wait_and_counts_as_a_try(
    directory: PlayedService, world_of: Callable[..., World], lie: str
) -> None:
    directory.way, told = LIES[lie]
    world = world_of(directory.url, within_s=0.2 if "0.2 s" in told else 5)
    topic, detail, away = why(world.asks("b-1"))
    assert topic == "retry.enrich.v1"
    assert detail.startswith("directory gives no answer: ")
    assert told in detail
    assert not away


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_service_that_says_so_is_away_at_once(
    world: World, directory: PlayedService, status: int
) -> None:
    directory.way = answering(status)
    assert why(world.asks("b-1")) == (
        "retry.enrich.v1",
        f"directory is away: it answers {status}",
        True,
    )


def test_where_nobody_listens_the_service_is_away_at_once(world_of: Callable[..., World]) -> None:
    topic, detail, away = why(world_of(nobody()).asks("b-1"))
    assert (topic, away) == ("retry.enrich.v1", True)
    assert detail.startswith("directory is away: ConnectError")


def test_what_fails_is_asked_once_a_batch(world: World, directory: PlayedService) -> None:
    directory.way = answering(500)
    made = world.batch(*({"keys": ["b-1"]} for _ in range(100)))
    assert {one.topic for one in made} == {"retry.enrich.v1"}
    assert len(directory.paths) == 1


def test_after_failures_in_a_row_nothing_is_asked_until_it_has_rested(
    directory: PlayedService, world_of: Callable[..., World]
) -> None:
    directory.way = answering(500)
    world = world_of(directory.url, at_once_max=1)
    made = world.batch(*({"keys": [f"b-{number}"]} for number in range(100)))
    assert len(directory.paths) == 5
    # also those that were asked: by now it is known to be the service
    assert {why(one)[1:] for one in made} == {("directory is away: it answers 500", True)}
    world.now_s += 4.9
    world.asks("b-1")
    assert len(directory.paths) == 5
    world.now_s += 0.2
    world.asks("b-1", "b-2")
    assert len(directory.paths) == 6  # half-open: one request says that it is not back
    directory.way = good
    world.now_s += 5.1
    made = world.batch(*({"keys": [f"b-{number}"]} for number in range(100)))
    assert {one.topic for one in made} == {"event.asked.v1"}
    assert len(directory.paths) == 106


def test_a_key_that_fails_among_others_that_do_not_is_no_outage(
    world: World, directory: PlayedService
) -> None:
    directory.way = lambda request: request.answers(500) if request.key == "bad" else good(request)
    for number in range(20):
        bad, fine = world.batch({"keys": ["bad"]}, {"keys": [f"b-{number}"]})
        assert why(bad)[1:] == ("directory gives no answer: it answers 500", False)
        assert fine.topic == "event.asked.v1"


@pytest.mark.parametrize("bad", [["bad"], ["bad", "worse"]])
def test_keys_that_always_fail_are_no_outage_where_nothing_else_is_asked(
    directory: PlayedService, world_of: Callable[..., World], bad: list[str]
) -> None:
    directory.way = answering(500)
    world = world_of(directory.url)
    counted = dict.fromkeys(bad, 0)
    for _ in range(12):
        world.now_s += 6
        for key, made in zip(bad, world.batch(*({"keys": [key]} for key in bad)), strict=True):
            counted[key] += not why(made)[2]
    # each request counts as a try, also those that find out whether the service is back
    assert sum(counted.values()) == len(directory.paths)
    assert min(counted.values()) >= 12 // len(bad)


def test_a_key_that_hangs_alone_does_not_hold_up_each_batch(
    directory: PlayedService, world_of: Callable[..., World]
) -> None:
    directory.way = slow
    world = world_of(directory.url, probes_aside=True, within_s=0.05)
    made = [world.asks("bad") for _ in range(20)]
    # on a busy machine a request may be given up before it is there
    assert len(directory.paths) in (4, 5)
    assert [why(one)[2] for one in made] == [False] * 5 + [True] * 15


def test_a_key_that_always_fails_is_asked_after_those_that_may_be_answered(
    directory: PlayedService, world_of: Callable[..., World]
) -> None:
    directory.way = lambda request: request.answers(500) if request.key == "bad" else good(request)
    world = world_of(directory.url, opens_after=1)
    world.asks("bad")
    world.now_s += 6
    bad, fine = world.batch({"keys": ["bad"]}, {"keys": ["b-1"]})
    assert (why(bad)[2], fine.topic) == (False, "event.asked.v1")


def test_what_cannot_be_sent_shows_no_secret(directory: PlayedService) -> None:
    for secret in ("Bearer s3cret\n", "Bearer s3cret-ü"):
        lookup = HttpLookup("directory", f"{directory.url}/badges/{{key}}", headers={"a": secret})

        async def ask(lookup: HttpLookup = lookup) -> None:
            async with client() as http:
                await request(http, lookup, "b-1")

        with pytest.raises(NoAnswerError) as told:
            asyncio.run(ask())
        assert told.value.why in ("LocalProtocolError", "UnicodeEncodeError")


def test_keys_that_a_service_refuses_are_no_outage_however_many_a_sender_makes_up(
    world: World, directory: PlayedService
) -> None:
    directory.way = answering(400)
    made = world.batch(*({"keys": [f"\t{number}"]} for number in range(20)))
    assert {why(one)[1:] for one in made} == {("directory gives no answer: it answers 400", False)}
    directory.way = good
    assert world.asks("b-1").topic == "event.asked.v1"


def test_payloads_of_others_do_not_wait_for_the_request_that_finds_out_whether_it_is_back(
    directory: PlayedService, world_of: Callable[..., World]
) -> None:
    directory.way = answering(503)
    world = world_of(directory.url, probes_aside=True, opens_after=1)
    world.asks("b-1")
    directory.way = slow
    world.now_s += 6
    begun_s = time.monotonic()
    assert why(world.asks("b-1")) == ("retry.enrich.v1", "directory is away: it answers 503", True)
    assert why(world.asks("b-2"))[0] == "retry.enrich.v1"
    assert time.monotonic() - begun_s < 1  # and the service takes 1.2 s
    eventually(lambda: world.asks("b-1").topic == "event.asked.v1")
    paths = [path[-3:] for path in directory.paths]
    assert paths[:2] == ["b-1", "b-1"]
    assert {*paths} == {"b-1"}  # on a busy machine, a third time
    assert world.asks("b-2").topic == "event.asked.v1"


def test_an_enrichment_may_know_better_than_to_wait(world_of: Callable[..., World]) -> None:
    (made,) = world_of(nobody()).batch({"key": "b-1"}, to="ask_or_else")
    assert data_of(made) == {"holder": "unknown"}


def test_a_look_up_that_the_row_does_not_name_parks_the_payload(world: World) -> None:
    (made,) = world.batch({"keys": ["b-1"]}, to="silent")
    assert why(made)[:2] == ("dlq.enrich.v1", "silent does not name 'directory' in `lookups`")


def test_a_key_that_is_no_text_parks_the_payload(world: World) -> None:
    (made,) = world.batch({"keys": [7]})
    assert why(made)[0] == "dlq.enrich.v1"
    assert "directory is asked by a text, not by int" in why(made)[1]


def test_where_nothing_is_asked_no_library_is_loaded_and_no_thread_runs() -> None:
    world = World("http://h")
    answers = Answers(replace(world.flow, endpoints=(world.flow.endpoints[-1],)))
    answers.look_ahead(world.enrich, [], Master())
    assert not answers.are_asked_for
