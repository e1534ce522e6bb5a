"""Payloads that became several events, or none on purpose, in the ledger; and what follows where
fold knew some of a repeat's events and not the others."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from clients.postgres.outbox import Outbox
from shared.events.envelope import Position, read_event
from shared.ids import part_id
from shared.model import AllEvents
from shared.published import ledger
from shared.settings import JobSettings
from shared.topic_names import REPEAT_TOPIC
from stream_jobs.ledger.repeat_corrections import RepeatCorrections
from stream_jobs.persist.rows import EventRow
from tests.stream_jobs.ledger.test_ledger import Pipeline, _unused_flows

pytestmark = pytest.mark.stack


@pytest.fixture
def pipeline(job_settings: JobSettings) -> Iterator[Pipeline]:
    pipeline = Pipeline(job_settings, next(_unused_flows))
    yield pipeline
    pipeline.close()


def _parts(pipeline: Pipeline, place: int, parts: int, payload: str) -> list[EventRow]:
    return [
        pipeline.row(place, part_id(payload, part))._replace(
            part=part, parts=parts, entity_id=f"wheel-{part}"
        )
        for part in range(parts)
    ]


def test_a_payload_of_which_an_event_is_lost_is_a_difference_until_it_is_there(
    pipeline: Pipeline,
) -> None:
    pipeline.receive(2)
    pipeline.enrich(events=6)
    first, second = _parts(pipeline, 0, 3, "p0"), _parts(pipeline, 1, 3, "p1")
    pipeline.persist(*first, *second[:2])
    pipeline.fold()
    assert pipeline.keep() == {"received": 2, "stored": 1, "difference": 1}
    pipeline.persist(second[2])
    assert pipeline.keep() == {"received": 2, "stored": 2}


def test_what_is_dropped_on_purpose_has_a_term_of_its_own(pipeline: Pipeline) -> None:
    pipeline.receive(3)
    pipeline.keeper._log._lanes["dlq.enrich.v1"] = ledger.Verdict.DROPPED
    pipeline.enrich(events=1, parks=range(1, 3))
    pipeline.persist(pipeline.row(0))
    pipeline.fold()
    assert pipeline.keep() == {"received": 3, "stored": 1, "dropped": 2}


@pytest.mark.parametrize("persist_first", [True, False])
def test_of_a_repeat_only_the_events_that_fold_did_not_know_are_corrected(
    pipeline: Pipeline, persist_first: bool
) -> None:
    pipeline.receive(2)
    pipeline.enrich(events=6)
    stored, again = _parts(pipeline, 0, 3, "p0"), _parts(pipeline, 1, 3, "p0")
    origin = Position(pipeline.payloads, 0, 1)

    def fold_knows_the_first_and_the_last() -> None:
        value = ledger.repeats_value([(origin, "p0"), (origin, "p0#2")])
        pipeline._producer.produce(REPEAT_TOPIC, value, b"d")
        pipeline._producer.flush(60)

    if not persist_first:
        fold_knows_the_first_and_the_last()
        pipeline.keep()
    pipeline.persist(*stored, *again)
    if persist_first:
        fold_knows_the_first_and_the_last()
    pipeline.keep()
    flow = replace(pipeline.keeper._flow, all_events=(AllEvents(),))
    recounts = RepeatCorrections(pipeline.connection, flow)
    assert recounts.send() == 0  # fold may yet tell of the one that is left
    pipeline.fold()
    assert pipeline.keep() == {"received": 2, "stored": 1, "duplicate": 1}
    assert recounts.send() == 1
    sent = Outbox(pipeline.connection).pending(100)
    events = [
        read_event(Position("", 0, 0), row.value or b"")
        for row in sent
        if row.topic == pipeline.readings
    ]
    for topic in flow.topics_by_type["reading"]:
        assert len([row for row in sent if row.topic == topic and b'"revision"' in row.value]) == 1
    corrected = [event for event in events if event.revision]
    assert [(event.id, event.entity_id) for event in corrected] == [("p0#1", "wheel-1")]
    assert recounts.send() == 0
    left = pipeline.connection.execute("SELECT count(*) FROM headrace.repeat").fetchone()
    assert left == (0,)


@pytest.mark.parametrize("again", [False, True])
def test_what_fold_knew_is_not_corrected_however_late_persist_comes(
    pipeline: Pipeline, again: bool
) -> None:
    """Or comes again, since it was killed after it had written."""
    pipeline.receive(2)
    pipeline.enrich(events=4)
    stored, repeats = _parts(pipeline, 0, 2, "p0"), _parts(pipeline, 1, 2, "p0")
    pipeline.store.write([*stored, *(repeats if again else [])])
    value = ledger.repeats_value(
        [(Position(pipeline.payloads, 0, 1), row.event_id) for row in repeats]
    )
    pipeline._producer.produce(REPEAT_TOPIC, value, b"d")
    pipeline.fold()
    recounts = RepeatCorrections(pipeline.connection, pipeline.keeper._flow)
    pipeline.keep()
    assert recounts.send() == 0
    pipeline.persist(*stored, *repeats)
    pipeline.keep()
    assert recounts.send() == 0


@pytest.mark.parametrize("event_id", ["x" * 6_000, "a\0b"])
def test_an_id_that_no_row_can_have_does_not_stop_the_ledger(
    pipeline: Pipeline, event_id: str
) -> None:
    pipeline.receive(1)
    value = ledger.repeats_value([(Position(pipeline.payloads, 0, 0), event_id)])
    pipeline._producer.produce(REPEAT_TOPIC, value, b"d")
    pipeline.enrich(events=1)
    pipeline.persist(pipeline.row(0))
    pipeline.fold()
    assert pipeline.keep() == {"received": 1, "stored": 1}
