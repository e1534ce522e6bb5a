"""One payload, several events, or none on purpose."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest

from clients.kafka.records import Outgoing, Payload
from shared.events import envelope
from shared.events.envelope import PARTS_MAX, Position, read_event
from shared.flow_table import Flow
from shared.formats import Json
from shared.model import (
    AllEvents,
    Arrival,
    Draft,
    Dropped,
    Endpoint,
    EventType,
    MasterData,
    MissingMasterData,
    Rejected,
)
from shared.published.ledger import Verdict, lanes_of_payloads
from stream_jobs.enrich import enrich_payload
from stream_jobs.enrich.enrich_payload import enricher
from stream_jobs.enrich.entity_gate import EntityGate
from stream_jobs.waiting.protocol import Gates
from tests.builders import Master


def _to_events(payload: Any, arrival: Arrival, _master: MasterData) -> Any:
    """A list of what to make: "a" or "b:entity", or a word for what else may happen."""
    if isinstance(payload, str):
        return {"drop": Dropped("asked", "to drop it"), "lie": Dropped("unheard"), "none": []}[
            payload
        ]
    return _one_by_one(payload, arrival)


def _one_by_one(payload: list[Any], arrival: Arrival) -> Iterator[Any]:
    for number, what in enumerate(payload):
        if what == "wait":
            raise MissingMasterData("device", "d-9")
        if what == "refuse":
            raise Rejected("refused", f"at {number}")
        if what == "fail":
            raise RuntimeError("a mistake")
        kind, _, entity = str(what).partition(":")
        yield what if what is None else Draft(kind, arrival.at_ms + number, {}, entity or None)


FLOW = Flow(
    (
        Endpoint(
            "all",
            _to_events,
            ("a", "b"),
            formats=(Json(any_type=True),),
            drops=("asked",),
            master=("device",),
        ),
        Endpoint("plain", lambda *_: Draft("a", 0, {}), ("a",)),
    ),
    (EventType("a"), EventType("b")),
    (),
)
ENRICH = enricher(FLOW)


def _payload(what: Any, **headers: bytes) -> Payload:
    told = [(envelope.ID, b"p-1"), *((f"ce_{name}", text) for name, text in headers.items())]
    place = Position("ingest.all.v1", 2, 7)
    return Payload(place, b"d-1", orjson.dumps(what), told, 1_700_000_000_000)


def _enrich(what: Any, **headers: bytes) -> list[Outgoing]:
    return [*ENRICH(_payload(what, **headers), Master())]


def _reason(made: list[Outgoing]) -> tuple[str, bytes]:
    (only,) = made
    return only.topic, dict(only.headers)[envelope.REASON]


def test_each_draft_becomes_an_event_with_an_id_of_its_own() -> None:
    made = _enrich(["a", "b:d-2", "a"])
    events = [read_event(Position(one.topic, 0, n), one.value or b"") for n, one in enumerate(made)]
    assert [(e.id, e.type, e.entity_id, e.part, e.parts) for e in events] == [
        ("p-1", "a", "d-1", 0, 3),
        ("p-1#1", "b", "d-2", 1, 3),
        ("p-1#2", "a", "d-1", 2, 3),
    ]
    assert {e.origin for e in events} == {Position("ingest.all.v1", 2, 7)}
    assert [one.key for one in made] == [b"d-1", b"d-2", b"d-1"]
    assert [dict(one.headers)[envelope.ID] for one in made] == [b"p-1", b"p-1#1", b"p-1#2"]


def test_each_event_goes_to_the_topic_of_all_events_as_it_is() -> None:
    also = enricher(replace(FLOW, all_events=(AllEvents(),)))(
        _payload(["a", "b:d-2", "a"]), Master()
    )
    own = _enrich(["a", "b:d-2", "a"])
    assert [*also] == [*own, *(one._replace(topic="events.all.v1") for one in own)]


def test_what_is_no_event_does_not_go_there() -> None:
    enrich = enricher(replace(FLOW, all_events=(AllEvents(),)))
    for what in (["a", "refuse"], ["a", "wait"], "drop"):
        assert [*enrich(_payload(what), Master())] == _enrich(what)


def test_again_they_are_the_same() -> None:
    assert _enrich(["a", "b:d-2"]) == _enrich(["a", "b:d-2"])


def test_one_alone_is_as_if_it_had_been_returned() -> None:
    (alone,) = _enrich(["a"])
    assert b'"part"' not in (alone.value or b"")


@pytest.mark.parametrize(
    ("what", "topic", "reason"),
    [
        (["a", "refuse"], "dlq.enrich.v1", b"refused"),
        (["a", "fail"], "dlq.enrich.v1", b"enrich_failed"),
        (["a", "c"], "dlq.enrich.v1", b"undeclared_type"),
        (["a", "a:not an id"], "dlq.enrich.v1", b"bad_entity_id"),
        (["a", None], "dlq.enrich.v1", b"enrich_failed"),
        (["a", "wait"], "retry.enrich.v1", b"missing_device"),
        (["a"] * (PARTS_MAX + 1), "dlq.enrich.v1", b"too_many_events"),
        ([], "dlq.enrich.v1", b"enrich_failed"),
        ("none", "dlq.enrich.v1", b"enrich_failed"),
        ("lie", "dlq.enrich.v1", b"undeclared_drop"),
    ],
)
def test_all_or_none(what: Any, topic: str, reason: bytes) -> None:
    assert _reason(_enrich(what)) == (topic, reason)


def test_as_many_as_may_be() -> None:
    made = _enrich(["a"] * PARTS_MAX)
    assert len({dict(one.headers)[envelope.ID] for one in made}) == PARTS_MAX


def test_events_that_are_too_large_together_stop_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(enrich_payload, "_TOGETHER_BYTES_MAX", 1_000)
    (letter,) = _enrich(["a"] * 100)
    detail = dict(letter.headers)[envelope.DETAIL].decode()
    assert _reason([letter])[1] == b"too_large"
    assert int(detail.split()[2]) < 10


def test_what_is_dropped_on_purpose_is_told() -> None:
    (told,) = _enrich("drop")
    assert (told.topic, told.key) == ("dropped.enrich.v1", b"d-1")
    assert orjson.loads(told.value or b"") == {"reason": "asked", "detail": "to drop it"}
    assert dict(told.headers) == {envelope.ID: b"p-1", envelope.ORIGIN: b"ingest.all.v1/2/7"}
    assert lanes_of_payloads(FLOW)["dropped.enrich.v1"] == Verdict.DROPPED


def test_a_flow_that_drops_nothing_has_no_topic_for_it() -> None:
    plain = Flow((FLOW.endpoints[1],), (EventType("a"),), ())
    assert "dropped.enrich.v1" not in [topic.name for topic in plain.topics()]
    assert "dropped.enrich.v1" in [topic.name for topic in FLOW.topics()]
    emits = {job.name: job.emits for job in FLOW.jobs()}
    assert all("dropped.enrich.v1" in emits[job] for job in ("enrich", "retry"))


def test_a_payload_waits_as_a_whole_and_those_of_its_entity_behind_it() -> None:
    in_turn = EntityGate(ENRICH, Gates(), "go_on")
    first, second = _payload(["a", "wait"]), _payload(["a", "a"])
    assert _reason([*in_turn(first, first.position, Master())])[0] == "retry.enrich.v1"
    assert _reason([*in_turn(second, second.position, Master())]) == ("retry.enrich.v1", b"behind")


def _correct(what: Any, **headers: bytes) -> list[Outgoing]:
    return [*ENRICH(_payload(what, **headers)._replace(attempt=1, revision=2), Master())]


def test_a_correction_makes_the_same_events_under_its_revision() -> None:
    of = orjson.dumps(["d-1", "d-2"])
    made = _correct(["a", "a:d-2"], subject=b"d-1", partsof=of)
    events = [read_event(Position(one.topic, 0, 0), one.value or b"") for one in made]
    assert [(e.id, e.revision) for e in events] == [("p-1", 2), ("p-1#1", 2)]


@pytest.mark.parametrize("now", [["a"], ["a", "a:d-3"], ["a:d-2", "a"], ["a", "a:d-2", "a"]])
def test_a_correction_that_takes_an_event_from_its_entity_is_parked(now: list[str]) -> None:
    of = orjson.dumps(["d-1", "d-2"])
    assert _reason(_correct(now, subject=b"d-1", partsof=of))[1] == b"correction_moves"


def test_and_one_that_drops_what_has_become_events() -> None:
    assert _reason(_correct("drop", subject=b"d-1"))[1] == b"correction_moves"


def test_and_one_that_makes_several_of_one() -> None:
    assert _reason(_correct(["a", "a"], subject=b"d-1"))[1] == b"correction_moves"
