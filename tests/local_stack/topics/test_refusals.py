"""Which topics can be given more partitions."""

import pytest

from local_stack.terminal.errors import StackError
from local_stack.topics.refusals import refuse_what_cannot_be
from shared.flow import FLOW
from shared.topic_names import JOB_STATUS_TOPIC
from tests.shared.test_actions import FLOW as CALLS


def test_every_ingest_topic_can_be() -> None:
    for topic in FLOW.ingest_topics:
        refuse_what_cannot_be(FLOW, topic, 4, 8)
        refuse_what_cannot_be(FLOW, topic, 8, 8)


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("ingest.telemtry.v1", "the flow has no topic 'ingest.telemtry.v1'"),
        ("event.reading.v1", "kept for ever"),
        ("state.device.v1", "it is compacted"),
        ("master.device.v1", "it is compacted"),
        ("gate.enrich.v1", "it is compacted"),
        (JOB_STATUS_TOPIC, "it is compacted"),
        ("again.enrich.v1", "jobs write to it"),
        ("retry.enrich.v1", "jobs write to it"),
        ("dlq.enrich.v1", "jobs write to it"),
        ("completion.reading.v1", "jobs write to it"),
    ],
)
def test_another_one_is_refused_with_the_reason(topic: str, why: str) -> None:
    with pytest.raises(StackError, match=why) as refused:
        refuse_what_cannot_be(FLOW, topic, 4, 8)
    assert refused.value.fix


def test_no_topic_is_refused_for_no_reason() -> None:
    for topic in FLOW.topics():
        if topic.name not in FLOW.ingest_topics:
            with pytest.raises(StackError, match=f"^{topic.name} cannot be widened: "):
                refuse_what_cannot_be(FLOW, topic.name, 4, 8)


def test_a_topic_to_which_jobs_write_deadlines_is_refused() -> None:
    """It is read as those of endpoints are."""
    deadlines = {*CALLS.ingest_topics} - {*CALLS.posted_topics}
    assert deadlines
    for topic in deadlines:
        with pytest.raises(StackError, match="jobs write to it"):
            refuse_what_cannot_be(CALLS, topic, 4, 8)


def test_fewer_partitions_and_a_missing_topic_are_refused() -> None:
    with pytest.raises(StackError, match=r"has 8 partitions, and Kafka takes none away"):
        refuse_what_cannot_be(FLOW, "ingest.telemetry.v1", 8, 4)
    with pytest.raises(StackError, match=r"Kafka has no topic ingest\.telemetry\.v1 yet"):
        refuse_what_cannot_be(FLOW, "ingest.telemetry.v1", None, 4)
