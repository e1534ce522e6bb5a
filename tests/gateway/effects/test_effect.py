from typing import Any

import orjson

from gateway.effects.effect import Effect, Seen, StoredRow
from gateway.effects.record_effects import Ended, Fact, Made, Told, Waits
from shared.events.envelope import Position
from shared.flow import FLOW

READERS = FLOW.readers
DEVICE = FLOW.entities[0]
ORIGIN = "ingest.telemetry.v1/0/7"


def _made(offset: int = 3, part: int = 0, parts: int = 1, entity_id: str = "d") -> Made:
    event_id = f"p#{part}" if part else "p"
    place = Position("event.reading.v1", 0, offset)
    return Made(place, event_id, "reading", entity_id, part, parts)


def _effect(*facts: Fact) -> Effect:
    effect = Effect("sha", READERS)
    effect.accepted(ORIGIN)
    for fact in facts:
        effect.hear(Told("p", ORIGIN, fact))
    return effect


def _snapshot(offset: int, version: int = 5, **meta: Any) -> bytes:
    positions = {"event.reading.v1/0": offset}
    return orjson.dumps({"_meta": {"version": version, "positions": positions, **meta}})


def test_it_is_enriched_when_all_its_events_are_there() -> None:
    effect = _effect()
    assert effect.reached == "accepted"
    effect.hear(Told("p", ORIGIN, _made(parts=2)))
    assert effect.reached == "accepted"
    effect.hear(Told("p", ORIGIN, _made(4, 1, 2)))
    assert effect.reached == "enriched"
    assert [made.id for made in effect.events] == ["p", "p#1"]


def test_what_is_heard_before_the_log_has_answered_counts_if_it_is_of_this_place() -> None:
    effect = Effect("sha", READERS)
    effect.hear(Told("p", "ingest.telemetry.v1/0/6", _made(2)))  # of an earlier repeat
    effect.hear(Told("p", ORIGIN, _made(3)))
    assert effect.events == []
    effect.accepted(ORIGIN)
    assert effect.events == [_made(3)]


def test_it_is_folded_when_the_state_has_its_event_and_not_while_it_is_folded_anew() -> None:
    effect = _effect(_made(3))
    for early in (_snapshot(2), _snapshot(3, asked={"x": 1}), _snapshot(9, asked={"x": 1})):
        assert not effect.look(DEVICE, "d", early)
        assert effect.reached == "enriched"
    assert effect.look(DEVICE, "d", _snapshot(3))
    assert (effect.reached, effect.states) == ("folded", {("device", "d"): Seen(5, False)})


def test_each_entity_of_its_events_is_looked_at_for_all_of_them() -> None:
    effect = _effect(_made(3, 0, 3), _made(4, 1, 3), _made(5, 2, 3, "e"))
    assert not effect.look(DEVICE, "d", _snapshot(3))
    assert effect.look(DEVICE, "d", _snapshot(4))
    assert effect.unfolded() == [(DEVICE, "e")]
    assert effect.look(DEVICE, "d", _snapshot(3)), "it was seen, also where another look is late"
    assert effect.look(DEVICE, "e", _snapshot(5, deleted=True))
    assert effect.reached == "folded"
    assert effect.states["device", "e"].deleted


def test_an_event_that_no_entity_folds_is_folded_with_nothing() -> None:
    alarm = _made()._replace(type="alarm_raised")
    assert _effect(alarm).reached == "folded"


def test_an_event_that_was_written_twice_is_one() -> None:
    effect = _effect(_made(3), _made(8))
    assert effect.look(DEVICE, "d", _snapshot(3))
    assert len(effect.events) == 1


def test_it_is_stored_when_each_event_is_a_row_a_repeat_of_the_same_bytes_included() -> None:
    effect = _effect(_made(3, 0, 2), _made(4, 1, 2))
    effect.look(DEVICE, "d", _snapshot(4))
    effect.take_rows({"p": StoredRow("p", ORIGIN, "sha")})
    assert effect.reached == "folded"
    effect.take_rows({"p#1": StoredRow("p#1", "ingest.telemetry.v1/0/2", "sha")})
    assert effect.reached == "stored"


def test_other_bytes_under_a_used_key_are_not_stored() -> None:
    effect = _effect(_made())
    effect.look(DEVICE, "d", _snapshot(3))
    effect.take_rows({"p": StoredRow("p", "ingest.telemetry.v1/0/2", "other")})
    assert effect.reached == "folded"
    assert effect.is_settled("stored")
    assert effect.ended is not None
    assert (effect.ended.by, effect.ended.reason) == ("persist", "key_reuse")


def test_what_is_parked_or_dropped_settles_all_that_it_will_not_reach() -> None:
    parked = Ended("parked", "enrich", "bad_json", "no JSON")
    assert _effect(parked).is_settled("enriched")
    refused = Ended("parked", "persist", "refused_by_store", "too long")
    effect = _effect(_made(3))
    effect.hear(Told("p", "event.reading.v1/0/3", refused))
    assert not effect.is_settled("folded")
    assert effect.is_settled("stored")


def test_an_event_that_fold_has_parked_is_not_folded_though_its_log_has_gone_on() -> None:
    effect = _effect(_made(3))
    effect.look(DEVICE, "d", _snapshot(3, parked=["p"]))
    assert effect.reached == "enriched"
    assert effect.is_settled("folded")
    assert not _effect(_made(3)).is_settled("folded")


def test_what_waits_may_yet_come() -> None:
    effect = _effect(Waits("missing_device", "d"))
    assert not effect.is_settled("enriched")
    effect.hear(Told("p", ORIGIN, _made()))
    assert (effect.reached, effect.waits) == ("enriched", None)
