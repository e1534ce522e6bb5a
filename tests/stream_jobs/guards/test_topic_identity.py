"""What a job does at its start with a log that is not the one it has read."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Range
from local_stack.run.stack import Stack
from shared.consumer_groups import of_job
from shared.errors import OtherLogError
from shared.settings import JobSettings
from stream_jobs.guards.checkpoint_offsets import remember_ahead, remember_begin
from stream_jobs.guards.topic_identity import TopicIdentityCheck, topic_ids
from tests.kafka_log import eventually

TOPIC = "event.reading.v1"
READS = TOPIC, "event.new.v1"


@pytest.fixture
def log(tmp_path: Path) -> TopicIdentityCheck:
    _read(tmp_path, "0", 10, committed=True)
    log = TopicIdentityCheck("fold", tmp_path, READS)
    log.remember({TOPIC: "A"})
    return log


def _read(checkpoint: Path, batch: str, end: int, *, committed: bool) -> None:
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(exist_ok=True)
    offsets = json.dumps({TOPIC: {"0": end, "1": 0}})
    (checkpoint / "offsets" / batch).write_text(f"v1\n{{}}\n{offsets}")
    if committed:
        (checkpoint / "commits" / batch).write_text("v1\n{}")


def _ranges(start: int, end: int) -> dict[tuple[str, int], Range]:
    return {(TOPIC, 0): Range(start, end), (TOPIC, 1): Range(0, 0)}


def test_the_same_log_may_have_grown_and_what_was_read_may_have_expired(
    log: TopicIdentityCheck,
) -> None:
    log.check({TOPIC: "A"}, _ranges(0, 10))
    log.check({TOPIC: "A", "event.new.v1": "N"}, _ranges(10, 99))


def test_a_batch_that_is_to_run_again_is_there_in_whole(
    log: TopicIdentityCheck, tmp_path: Path
) -> None:
    _read(tmp_path, "1", 30, committed=False)
    log.check({TOPIC: "A"}, _ranges(10, 30))
    with pytest.raises(OtherLogError, match=r"RECORDS_EXPIRED: 1 records of .*/0, from offset 10 "):
        log.check({TOPIC: "A"}, _ranges(11, 30))
    with pytest.raises(
        OtherLogError, match=r"TOPIC_CUT: .*/0 ends at offset 29, it has read to 30"
    ):
        log.check({TOPIC: "A"}, _ranges(0, 29))


def test_a_disk_that_has_changed_a_name_or_an_id_is_no_other_topic(
    log: TopicIdentityCheck, tmp_path: Path
) -> None:
    file = tmp_path / "topic_ids.json"
    whole = file.read_bytes()
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        log.check({TOPIC: "A"}, _ranges(0, 10))
    log.remember({TOPIC: "A"})
    assert file.read_bytes() == whole


def test_what_was_done_ahead_of_its_batches_is_read_too(
    log: TopicIdentityCheck, tmp_path: Path
) -> None:
    remember_ahead(tmp_path, {TOPIC: {0: 40, 1: 0}})
    log.check({TOPIC: "A"}, _ranges(40, 40))  # no later batch may have come before all expired
    with pytest.raises(OtherLogError, match=r"RECORDS_EXPIRED: 1 records of .*/0, from offset 40 "):
        log.check({TOPIC: "A"}, _ranges(41, 50))
    with pytest.raises(
        OtherLogError, match=r"TOPIC_CUT: .*/0 ends at offset 39, it has read to 40"
    ):
        log.check({TOPIC: "A"}, _ranges(0, 39))


def test_a_topic_made_anew_is_known_by_its_id_however_long_it_is(log: TopicIdentityCheck) -> None:
    with pytest.raises(OtherLogError, match=r"TOPIC_RECREATED: .* was A, is B") as raised:
        log.check({TOPIC: "B"}, _ranges(0, 1_000))
    assert raised.value.begin_at == {TOPIC: {0: 0, 1: 0}}
    with pytest.raises(OtherLogError, match=r"TOPIC_GONE: event.reading.v1 is not there"):
        log.check({}, {})


def test_a_topic_that_the_job_no_longer_reads_may_go(
    log: TopicIdentityCheck, tmp_path: Path
) -> None:
    log.remember({TOPIC: "A", "event.new.v1": "N"})
    later = TopicIdentityCheck("fold", tmp_path, [TOPIC])
    later.check({TOPIC: "A"}, _ranges(0, 10))
    later.remember({TOPIC: "A"})
    log.check({TOPIC: "A", "event.new.v1": "made anew"}, _ranges(0, 10))


def test_an_id_is_kept_as_it_was_first_seen_and_new_topics_are_added(
    log: TopicIdentityCheck,
) -> None:
    log.remember({TOPIC: "B", "event.new.v1": "N"})
    with pytest.raises(OtherLogError, match=r"TOPIC_RECREATED.*was N, is M"):
        log.check({TOPIC: "A", "event.new.v1": "M"}, _ranges(0, 10))


def test_what_expires_before_the_first_batch_is_done_is_missed_by_name(tmp_path: Path) -> None:
    remember_begin(tmp_path, {TOPIC: {0: 500}})
    log = TopicIdentityCheck("fold", tmp_path, READS)
    log.check({TOPIC: "A"}, _ranges(500, 600))
    with pytest.raises(OtherLogError, match=r"RECORDS_EXPIRED: 1 records of .*from offset 500 on"):
        log.check({TOPIC: "A"}, _ranges(501, 600))
    with pytest.raises(OtherLogError, match=r"RECORDS_EXPIRED: 3 records of event.new.v1/0"):
        log.check({TOPIC: "A"}, {**_ranges(500, 600), ("event.new.v1", 0): Range(3, 9)})


def test_a_job_without_a_checkpoint_takes_any_log(tmp_path: Path) -> None:
    TopicIdentityCheck("fold", tmp_path / "none", READS).check({TOPIC: "A"}, _ranges(500, 600))


@pytest.mark.stack
def test_what_a_real_broker_tells_of_a_topic_that_is_deleted_and_made_anew(
    parts: Stack, tmp_path: Path
) -> None:
    topic = "event.made_anew.v1"
    settings = JobSettings(kafka_bootstrap=parts.kafka_bootstrap, state_dir=tmp_path)
    admin = AdminClient({"bootstrap.servers": parts.kafka_bootstrap})

    def make_with(records: int) -> None:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
        producer = Producer({"bootstrap.servers": parts.kafka_bootstrap})
        for _ in range(records):
            producer.produce(topic, b"x")
        producer.flush(60)

    make_with(5)
    log = TopicIdentityCheck("fold", tmp_path / "fold", [topic])
    log.remember(topic_ids(settings, [topic]))
    group = LogOffsets(settings.kafka, of_job("test-made-anew"), [topic])
    log.check(topic_ids(settings, [topic]), group.ranges())
    admin.delete_topics([topic])[topic].result(60)
    eventually(lambda: topic_ids(settings, [topic]) == {})
    with pytest.raises(OtherLogError, match=r"TOPIC_GONE"):
        log.check({}, {})
    make_with(9)
    group = LogOffsets(settings.kafka, of_job("test-made-anew"), [topic])
    with pytest.raises(OtherLogError, match=r"TOPIC_RECREATED") as raised:
        log.check(topic_ids(settings, [topic]), group.ranges())
    assert raised.value.begin_at == {topic: {0: 0}}
