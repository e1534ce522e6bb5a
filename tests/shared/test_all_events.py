"""A topic of all events: what is on it, who may write it, and what is published of it."""

from dataclasses import replace

import pytest

from local_stack.contracts.documents import documents
from local_stack.verbs.flow import picture
from shared.flow import FLOW as SAMPLE
from shared.model import AllEvents, EventType
from shared.published.acls import acls
from shared.published.schemas.by_topic import messages
from tests.every_event import FLOW

ALL, OF_COUNTERS = "events.all.v1", "events.counter.v1"
DAY_MS = 86_400_000


def test_it_is_written_by_those_who_write_the_events() -> None:
    emits = {job.name: {*job.emits} for job in FLOW.jobs()}
    assert {ALL, OF_COUNTERS} <= emits["enrich"] & emits["retry"]
    assert ALL in emits["fold"]
    assert OF_COUNTERS not in emits["fold"]  # the alarms are none of a counter
    writers = {acl.application for acl in acls(FLOW) if acl[1:] == ("WRITE", "topic", ALL)}
    assert writers == {"enrich", "retry", "fold", "relay"}


def test_no_job_starts_from_it() -> None:
    read = {topic for job in FLOW.jobs() for topic in (*job.ignited_by, *job.looks_up)}
    assert not read & {ALL, OF_COUNTERS}


def test_it_is_kept_for_ever_or_as_its_row_says() -> None:
    config = {topic.name: topic.config for topic in FLOW.topics()}
    assert config[ALL] == config["event.reading.v1"]
    assert config[OF_COUNTERS]["retention.ms"] == str(7 * DAY_MS)


def test_its_schemas_are_those_of_the_events() -> None:
    known = messages(FLOW)
    assert [one.name for one in known[ALL]] == [row.name for row in FLOW.event_types]
    assert [one.name for one in known[OF_COUNTERS]] == ["status_changed"]
    published = documents("tests.every_event:FLOW")
    for row in SAMPLE.event_types:
        own = published[f"{row.topic}.schema.json"]
        there = published[f"{ALL}.{row.name}.schema.json"]
        assert there == {**own, "title": ALL}
    sends = published["asyncapi.json"]["operations"]
    assert f"enrich.send.{ALL}" in sends
    assert f"fold.send.{ALL}" in sends


def test_the_picture_shows_it() -> None:
    assert f"emits       {ALL}" in picture(FLOW)


def test_a_flow_without_it_writes_each_event_once() -> None:
    assert all(topics == (topics[0],) for topics in SAMPLE.topics_by_type.values())


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (AllEvents(of="nobody"), "AllEvents is of 'nobody', which is no entity of this flow"),
        (AllEvents(retention_days=0), r"events\.all\.v1 is kept for 0 days: name 1 or more"),
        (AllEvents(topic_name="event.reading.v1"), "belongs to two rows"),
        (AllEvents(topic_name="no topic"), "topic 'no topic': use"),
    ],
)
def test_a_row_that_does_not_add_up_is_refused(row: AllEvents, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        replace(SAMPLE, all_events=(row,))


def test_two_rows_for_the_same_are_refused() -> None:
    with pytest.raises(ValueError, match="belongs to two rows"):
        replace(SAMPLE, all_events=(AllEvents(), AllEvents()))


def test_one_alone_needs_its_comma() -> None:
    with pytest.raises(ValueError, match="all_events is no tuple"):
        replace(SAMPLE, all_events=AllEvents())


def test_it_has_a_name_of_its_own_beside_a_type_called_all() -> None:
    flow = replace(
        SAMPLE, event_types=(*SAMPLE.event_types, EventType("all")), all_events=(AllEvents(),)
    )
    assert {"event.all.v1", ALL} <= {topic.name for topic in flow.topics()}
