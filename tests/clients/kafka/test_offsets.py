import re
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from clients.kafka import connect, offsets
from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Outgoing
from clients.kafka.write import AckedWriter, for_at_most, publish
from local_stack.run.stack import Stack
from shared.kafka_access import KafkaAccess
from tests.kafka_log import eventually

TOPIC = "test.offsets.v1"


@pytest.mark.stack
def test_where_logs_begin_and_end_and_how_far_a_group_is(parts: Stack) -> None:
    kafka = KafkaAccess(parts.kafka_bootstrap)
    admin = AdminClient(kafka.for_librdkafka())
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(30)
    with LogOffsets(kafka, "headrace-test-offsets", [TOPIC, "none.v1"]) as log:
        eventually(lambda: len(log.partitions()) == 2)
        records = [Outgoing(TOPIC, b"k%d" % number, b"v", []) for number in range(100)]
        assert publish(kafka, records) == 100
        ranges = log.ranges()
        assert {at.start for at in ranges.values()} == {0}
        assert sum(at.end for at in ranges.values()) == 100
        assert log.ends() == {at: its.end for at, its in ranges.items()}
        assert log.since({(TOPIC, 0): 0, (TOPIC, 1): 2**41}) == {(TOPIC, 0): 0, (TOPIC, 1): None}
        assert log.positions() == {(TOPIC, 0): 0, (TOPIC, 1): 0}
        assert log.known_positions() == {}
        assert log.committed().offsets == {TOPIC: {0: 0, 1: 0}}
        log.commit({TOPIC: {0: 7}}, "a note")
        assert log.known_positions() == {(TOPIC, 0): 7}
        committed = log.committed()
        assert committed.offsets == {TOPIC: {0: 7, 1: 0}}
        assert committed.notes == {"a note"}
        assert committed.added == {TOPIC: {1}}
        assert log.partition_counts([TOPIC, "none.v1"]) == {TOPIC: 2}


def test_a_broker_that_is_away_is_an_error_within_the_time_given() -> None:
    log = LogOffsets(KafkaAccess("127.0.0.1:1"), "headrace-test", [TOPIC], answer_s=0.1)
    for ask in (log.metadata, log.committed, log.ends, log.ranges):
        with pytest.raises(KafkaException):
            ask()
    log.close()


def test_a_client_that_hears_nothing_for_long_gives_way_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Consumer] = []

    def asker(*given: Any) -> Consumer:
        made.append(connect.asker(*given))
        return made[-1]

    monkeypatch.setattr(offsets, "asker", asker)
    with LogOffsets(KafkaAccess("127.0.0.1:1"), "headrace-test", [TOPIC], answer_s=0.1) as log:

        def ask() -> int:
            with pytest.raises(KafkaException):
                log.metadata()
            return len(made)

        assert [ask(), ask()] == [1, 1]
        monkeypatch.setattr(offsets, "MADE_ANEW_AFTER_S", 0.05)
        assert [ask(), ask(), ask()] == [2, 2, 3]
        with pytest.raises(KafkaException):
            log.commit({TOPIC: {0: 1}}, "which nobody confirms")
        began_s = time.monotonic()
        assert [ask(), ask()] == [4, 4]
        assert time.monotonic() - began_s < 10, "it waited for the last commit"


class _Slow:
    """Answers each commit when the next one has been sent, and then that one."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._tell = options["on_commit"]
        self._sent: list[list[TopicPartition]] = []
        self._polls = 0

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        assert asynchronous
        self._sent.append(offsets)

    def poll(self, _timeout_s: float) -> None:
        if len(self._sent) == 2 and self._polls < 2:
            self._tell(
                KafkaError(KafkaError.REBALANCE_IN_PROGRESS) if self._polls == 0 else None,
                self._sent[self._polls],
            )
            self._polls += 1

    def close(self) -> None: ...


def test_a_late_answer_to_a_commit_is_not_taken_for_that_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offsets, "asker", lambda _kafka, _group, options: _Slow(options))
    with LogOffsets(KafkaAccess("nobody:1"), "headrace-test", [TOPIC], answer_s=0.1) as log:
        with pytest.raises(KafkaException):
            log.commit({TOPIC: {0: 1}}, "which is answered too late")
        # else it would raise what is said of the one before
        log.commit({TOPIC: {0: 1}}, "the same offset with another note")


def test_records_without_an_answer_are_refused_in_words() -> None:
    records = [Outgoing(TOPIC, b"k", b"v", []) for _ in range(3)]
    refusals = AckedWriter(KafkaAccess("127.0.0.1:1")).send(records, for_at_most(0.2))
    assert refusals == dict.fromkeys(range(3), "not acknowledged")


def test_a_full_queue_is_waited_for_as_long_as_the_caller_wants() -> None:
    records = [Outgoing(TOPIC, b"k", b"v", []) for _ in range(100)]
    sender = AckedWriter(KafkaAccess("127.0.0.1:1"), {"queue.buffering.max.messages": 2})
    refusals = sender.send(records, for_at_most(0.3))
    assert refusals == dict.fromkeys(range(100), "not acknowledged")


def test_no_admin_client_lives_in_the_gateways_own_process() -> None:
    # an admin request whose broker goes away can abort its process
    folder = Path(__file__).parents[3] / "gateway"
    sources = {path: path.read_text() for path in folder.rglob("*.py")}
    users = {path.name for path, text in sources.items() if re.search(r"\badmin\(", text)}
    assert users == {"members.py", "topics.py"}  # of the view's writer, a process of its own
    assert not any("confluent_kafka.admin" in text for text in sources.values())
