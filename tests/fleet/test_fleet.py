"""The domains alone: no Kafka, no Spark, no server."""

import random
from datetime import UTC, datetime
from typing import Any

import cbor2
import fleet
import meter
import orjson
import pytest

from clients.kafka.records import Payload
from shared.events import envelope
from shared.events.envelope import EventRecord, Position, event_value, read_event
from shared.flow_table import Flow
from shared.folding import snapshot
from shared.folding.applier import Applier
from shared.folding.refolding import in_effect
from shared.folding.snapshot import Snapshot
from stream_jobs.enrich.enrich_payload import enricher
from tests.builders import Master

AT = datetime(2026, 1, 1, tzinfo=UTC)


def _events(flow: Flow, topic: str, value: bytes, offset: int = 0) -> list[EventRecord]:
    payload = Payload(
        Position(topic, 0, offset),
        b"one",
        value,
        [(envelope.ID, b"p-%d" % offset)],
        1_767_225_600_000 + offset,
    )
    made = enricher(flow)(payload, Master())
    assert all(one.topic.startswith("event.") for one in made), dict(made[0].headers)
    return [read_event(Position(one.topic, 0, 0), one.value or b"") for one in made]


def _batch(fixes: int, tires: int = 0, mode: str = "road") -> bytes:
    return cbor2.dumps(
        {
            "mode": mode,
            "fixes": [{"at": AT, "lat": float(n), "lon": 0.0} for n in range(fixes)],
            "tires": [{"wheel": "fl", "bar": 2.0 + n} for n in range(tires)],
        }
    )


def test_a_batch_becomes_events_of_the_truck_and_of_its_wheels() -> None:
    events = _events(fleet.FLOW, "ingest.batch.v1", _batch(2, 1))
    assert [(e.type, e.entity_id) for e in events] == [
        ("fix", "one"),
        ("fix", "one"),
        ("pressure", "one:fl"),
    ]


def test_a_day_of_a_meter_becomes_an_event_an_hour() -> None:
    events = _events(meter.FLOW, "ingest.day.v1", b"hour,kwh\n1,0.5\n2,0.75\n")
    assert [e.data for e in events] == [{"hour": 1, "kwh": 0.5}, {"hour": 2, "kwh": 0.75}]
    assert [e.time_ms for e in events] == [3_600_000, 7_200_000]


@pytest.mark.parametrize("seed", range(200))
def test_whatever_of_a_payload_is_written_again_counts_once(seed: int) -> None:
    """enrich may die in the middle of a payload's events, and writes all of them again."""
    chance = random.Random(seed)
    writings: list[EventRecord] = []
    payloads = []
    for offset in range(chance.randint(1, 6)):
        fixes = chance.choice([1, 2, 12, 40])
        payloads.append(fixes)
        made = _events(fleet.FLOW, "ingest.batch.v1", _batch(fixes), offset)
        while chance.random() < 0.4:  # from some payload on, and up to somewhere in this one
            writings += made[: chance.randint(1, fixes)]
        writings += made
        if chance.random() < 0.2:
            writings += writings[-chance.randint(1, len(writings)) :]
    log = [one._replace(position=Position("event.fix.v1", 0, n)) for n, one in enumerate(writings)]
    applier = Applier(fleet.FLOW.entities[0], 64, {t.name: t for t in fleet.FLOW.event_types})
    now: Snapshot | None = None
    while log:
        some = chance.randint(1, len(log))
        after = applier.apply("one", now, log[:some]).snapshot or now
        assert after is not None
        now = snapshot.decode(snapshot.encode(after, "fold"))
        log = log[some:]
    assert now is not None
    assert now.state["fixes"] == sum(payloads)


def test_a_payload_that_was_sent_twice_counts_once() -> None:
    once = _events(fleet.FLOW, "ingest.batch.v1", _batch(12), 0)
    again = [
        e._replace(origin=Position("ingest.batch.v1", 0, 9), arrived_ms=e.arrived_ms + 5)
        for e in once
    ]
    log = [e._replace(position=Position("event.fix.v1", 0, n)) for n, e in enumerate(once + again)]
    applier = Applier(fleet.FLOW.entities[0], 64, {t.name: t for t in fleet.FLOW.event_types})
    applied = applier.apply("one", None, log)
    assert applied.snapshot is not None
    assert applied.snapshot.state["fixes"] == 12
    origin = Position("ingest.batch.v1", 0, 9)
    assert applied.repeats == [(origin, e.id) for e in once]


def test_an_event_of_a_payload_that_was_sent_on_again_comes_before_those_behind_it() -> None:
    first, second, third = _events(fleet.FLOW, "ingest.batch.v1", _batch(3))
    again = first._replace(attempt=1, position=Position("event.fix.v1", 0, 2))
    log = [
        one._replace(position=Position("event.fix.v1", 0, n))
        for n, one in enumerate((second, third))
    ]
    applier = Applier(fleet.FLOW.entities[0], 64, {t.name: t for t in fleet.FLOW.event_types})
    applied = applier.apply("one", None, [*log, again])
    assert applied.asks
    assert [one[0].part for one in in_effect([*log, again])] == [0, 1, 2]


@pytest.mark.parametrize("part", [["x", 1], [0, 1, 2], [1, 1], [-1, 2], 5, "ab", [0, 10_001]])
def test_a_part_that_is_none_is_no_event(part: object) -> None:
    event = _events(fleet.FLOW, "ingest.batch.v1", _batch(1))[0]
    value = orjson.dumps({**orjson.loads(event_value(event)), "part": part})
    with pytest.raises(ValueError, match="is no event"):
        read_event(Position("event.fix.v1", 0, 0), value)


def test_the_flow_of_both_adds_up() -> None:
    from fleet_and_meter import FLOW

    names: Any = [topic.name for topic in FLOW.topics()]
    assert {"ingest.batch.v1", "ingest.day.v1", "dropped.enrich.v1"} <= {*names}
