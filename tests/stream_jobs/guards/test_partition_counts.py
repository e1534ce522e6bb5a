"""Topics that are given more partitions underfoot."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from clients.kafka.offsets import LogOffsets
from local_stack.run.stack import Stack
from shared.consumer_groups import of_job
from shared.errors import OtherLogError
from shared.settings import JobSettings
from stream_jobs.guards.partition_counts import PartitionCounts
from stream_jobs.guards.single_copy import OneCopy
from stream_jobs.guards.topic_identity import topic_ids
from stream_jobs.guards.widened_topics import WidenedTopics
from tests.kafka_log import eventually

TOPIC = "state.device.v1"
IDS = {TOPIC: "A"}
SAID = (
    "TOPIC_WIDENED: state.device.v1 had 4 partitions and has 8 now, so an entity's next records go "
    "elsewhere than its last ones. fold stays down and loses nothing; docs/operations.md says what "
    "to do, of TOPIC_WIDENED"
)


def counts(folder: Path, accepted: int = 0) -> PartitionCounts:
    return PartitionCounts("fold", folder / "fold", WidenedTopics(folder, {TOPIC: accepted}))


@pytest.fixture
def known(tmp_path: Path) -> PartitionCounts:
    found = counts(tmp_path)
    found.check(IDS, {TOPIC: 4}, {})
    found.remember(IDS, {TOPIC: 4})
    return found


def test_more_partitions_stop_the_job_by_name_while_it_works(known: PartitionCounts) -> None:
    known.check_in_use({TOPIC: 4})
    known.check_in_use({})  # a broker that has just come back may not know it yet
    with pytest.raises(OtherLogError) as raised:
        known.check_in_use({TOPIC: 8})
    assert str(raised.value) == SAID


def test_they_stop_it_at_its_next_start_too_with_a_checkpoint_or_without(
    known: PartitionCounts, tmp_path: Path
) -> None:
    del known
    assert not (tmp_path / "fold").exists()  # what is known is not in the checkpoint
    with pytest.raises(OtherLogError, match="TOPIC_WIDENED"):
        counts(tmp_path).check(IDS, {TOPIC: 8}, {})


def test_what_was_committed_tells_it_where_nothing_else_is_known(tmp_path: Path) -> None:
    with pytest.raises(OtherLogError, match="had 4 partitions and has 8 now"):
        counts(tmp_path).check(IDS, {TOPIC: 8}, {TOPIC: 4})


def test_what_the_operator_accepts_is_the_number_from_then_on(
    known: PartitionCounts, tmp_path: Path
) -> None:
    del known
    accepting = counts(tmp_path, accepted=8)
    accepting.check(IDS, {TOPIC: 8}, {TOPIC: 4})
    accepting.remember(IDS, {TOPIC: 8})
    counts(tmp_path).check(IDS, {TOPIC: 8}, {})
    with pytest.raises(OtherLogError, match="had 8 partitions and has 9 now"):
        accepting.check(IDS, {TOPIC: 9}, {})


def test_what_the_verb_accepts_a_job_that_works_hears_at_once(
    known: PartitionCounts, tmp_path: Path
) -> None:
    verb = WidenedTopics(tmp_path)
    verb.accept("another.v1", 2)
    verb.accept(TOPIC, 8)
    known.check_in_use({TOPIC: 8})
    counts(tmp_path).check(IDS, {TOPIC: 8}, {TOPIC: 4})
    with pytest.raises(OtherLogError, match="had 8 partitions and has 9 now"):
        known.check_in_use({TOPIC: 9})
    # and once more: while the file is ahead of Kafka, and after it
    verb.accept(TOPIC, 16)
    known.check_in_use({TOPIC: 8})
    counts(tmp_path).check(IDS, {TOPIC: 8}, {TOPIC: 4})
    known.check_in_use({TOPIC: 16})
    counts(tmp_path).check(IDS, {TOPIC: 16}, {TOPIC: 4})
    verb.withdraw(TOPIC, 16)
    assert not verb.accepts(TOPIC, 16)
    assert verb.accepts("another.v1", 2)


def test_a_topic_that_was_made_anew_is_another_one(known: PartitionCounts) -> None:
    known.check({TOPIC: "B"}, {TOPIC: 8}, {})


@pytest.mark.stack
def test_a_real_topic_that_is_widened_is_known_by_the_offsets_that_were_committed(
    parts: Stack, tmp_path: Path
) -> None:
    topic = "event.widened.v1"
    settings = JobSettings(kafka_bootstrap=parts.kafka_bootstrap, state_dir=tmp_path)
    admin = AdminClient({"bootstrap.servers": parts.kafka_bootstrap})
    admin.create_topics([NewTopic(topic, 4, 1)])[topic].result(60)
    group = LogOffsets(settings.kafka, of_job("test-widened"), [topic])
    eventually(lambda: group.partition_counts([topic]) == {topic: 4})
    copy = OneCopy("test-widened", group, tmp_path / "one")
    eventually(lambda: _holds(copy))
    copy.publish({topic: dict.fromkeys(range(4), 0)})
    copy.release()
    admin.create_partitions([NewPartitions(topic, 6)])[topic].result(60)
    eventually(lambda: group.partition_counts([topic, "none.v1"]) == {topic: 6})
    for again in ("two", "three"):  # to have looked changes nothing
        other = OneCopy("test-widened", group, tmp_path / again)
        eventually(lambda other=other: _holds(other))  # type: ignore[misc]
        assert other.committed == {topic: 4}
        other.hold()
        other.release()
    counts = PartitionCounts("test-widened", tmp_path / "none", WidenedTopics(tmp_path))
    with pytest.raises(OtherLogError, match="had 4 partitions and has 6 now"):
        ids, now = topic_ids(settings, [topic]), group.partition_counts([topic])
        counts.check(ids, now, other.committed)


def _holds(copy: OneCopy) -> bool:
    try:
        return copy.hold()
    except KafkaException:  # a partition that was just made has no leader yet
        return False
