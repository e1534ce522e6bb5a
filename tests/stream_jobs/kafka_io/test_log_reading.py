"""Reading and writing as a worker does it, on a real broker."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark import cloudpickle

from clients.kafka import read_tail
from clients.kafka.messages import payload_of
from clients.kafka.offsets import LogOffsets
from clients.kafka.read_range import RangeReader
from clients.kafka.read_tail import TailReader
from clients.kafka.records import LogRange, Offsets, Outgoing
from local_stack.run.stack import Stack
from shared.errors import LeaseEndedError, LogCutError, StalledError
from shared.kafka_access import KafkaAccess
from shared.settings import JobSettings
from shared.topic_names import RECORD_BYTES_MAX
from stream_jobs.guards.checkpoint_offsets import ahead_at, remember_ahead
from stream_jobs.guards.lease import Lease, check_lease, now_s
from stream_jobs.kafka_io.log_reader import LogReader, Source, Task, work_on
from stream_jobs.kafka_io.topic_writer import WriterOf
from tests.kafka_log import eventually

pytestmark = pytest.mark.stack
MAX = 10_000


def _topic(parts: Stack, name: str, partitions: int = 2, **config: str) -> str:
    admin = AdminClient({"bootstrap.servers": parts.kafka_bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(60)
    return name


def _kafka(parts: Stack) -> KafkaAccess:
    return JobSettings(kafka_bootstrap=parts.kafka_bootstrap).kafka


def _write(parts: Stack, topic: str, count: int, partition: int = 0, keys: int = MAX) -> None:
    producer = Producer({"bootstrap.servers": parts.kafka_bootstrap})
    for number in range(count):
        producer.produce(
            topic, b"%d" % number, b"%d" % (number % keys), partition, headers=[("n", None)]
        )
        producer.poll(0)
    assert producer.flush(60) == 0


def _read(reader: RangeReader, *its: LogRange) -> dict[tuple[str, int], list[int]]:
    found: dict[tuple[str, int], list[int]] = {}
    for messages in reader.read(its):
        for message in messages:
            at = payload_of(message).position
            found.setdefault((at.topic, at.partition), []).append(at.offset)
    return found


def test_a_task_reads_its_ranges_and_nothing_else_again_and_again(parts: Stack) -> None:
    topic = _topic(parts, "test.ranges.v1")
    _write(parts, topic, 12_000)
    _write(parts, topic, 300, partition=1)
    reader = RangeReader(_kafka(parts), "test")
    for begin, end in ((0, 12_000), (3, 4), (11_000, 11_990), (3, 4)):
        found = _read(reader, LogRange(topic, 0, begin, end), LogRange(topic, 1, 7, 90))
        assert found == {(topic, 0): list(range(begin, end)), (topic, 1): list(range(7, 90))}


def test_a_header_without_a_value_reads_as_empty(parts: Stack) -> None:
    topic = _topic(parts, "test.headers.v1")
    _write(parts, topic, 1)
    ((message,),) = RangeReader(_kafka(parts), "test").read([LogRange(topic, 0, 0, 1)])
    assert payload_of(message).headers == [("n", b"")]


def test_what_is_compacted_away_is_not_waited_for(parts: Stack) -> None:
    compacted = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "200",
    }
    topic = _topic(parts, "test.compacted.v1", 1, **compacted)
    _write(parts, topic, 500, keys=3)
    reader = RangeReader(_kafka(parts), "test")
    deadline = time.monotonic() + 60
    while len(_read(reader, LogRange(topic, 0, 0, 500))[topic, 0]) == 500:
        assert time.monotonic() < deadline, "nothing was compacted"
        _write(parts, topic, 1, keys=3)  # which begins a segment: only what is behind it is cleaned
        time.sleep(0.5)
    # the range ends within what is gone
    found = _read(reader, LogRange(topic, 0, 0, 400))
    assert all(offset < 400 for its in found.values() for offset in its)


def test_records_that_have_expired_are_not_passed_over(parts: Stack) -> None:
    topic = _topic(parts, "test.expired.v1", 1)
    _write(parts, topic, 100)
    admin = AdminClient({"bootstrap.servers": parts.kafka_bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 50)]).values():
        deleted.result(60)
    reader = RangeReader(_kafka(parts), "test")
    with pytest.raises(KafkaException):
        _read(reader, LogRange(topic, 0, 49, 60))
    assert _read(reader, LogRange(topic, 0, 50, 60)) == {(topic, 0): list(range(50, 60))}


def test_a_job_that_may_not_go_on_stops_waiting_for_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = KafkaAccess("127.0.0.1:1")
    monkeypatch.setenv("HEADRACE_LEASES", "")  # which a lease sets for good
    lease = Lease(tmp_path, "test")
    lease.extend(0.0)  # of long ago
    with pytest.raises(LeaseEndedError):
        alone = partial(check_lease, "test")
        list(RangeReader(nowhere, "test").read([LogRange("a", 0, 0, 1)], alone))
    writer = WriterOf("test", nowhere, "none")()
    with pytest.raises(LeaseEndedError), writer.or_nothing():
        writer.send(Outgoing("a", None, b"", []))
        writer.flush()


def test_all_is_written_when_it_is_flushed_and_nothing_more_of_what_failed(parts: Stack) -> None:
    topic = _topic(parts, "test.written.v1", 1)
    ends = LogOffsets(_kafka(parts), "test", [topic])
    writer = WriterOf("test", _kafka(parts), "lz4")()
    for _ in range(2):
        with writer.or_nothing():
            for number in range(1_000):
                writer.send(Outgoing(topic, b"key", b"%d" % number, [("name", b"value")]))
            writer.flush()
    assert ends.ends() == {(topic, 0): 2_000}
    with pytest.raises(KeyError), writer.or_nothing():
        writer.send(Outgoing(topic, b"key", b"never", []))
        raise KeyError
    writer.flush()
    time.sleep(0.1)  # longer than a record waits for others
    assert ends.ends() == {(topic, 0): 2_000}
    messages = RangeReader(_kafka(parts), "test").read([LogRange(topic, 0, 998, 1_002)])
    payloads = [payload_of(message) for chunk in messages for message in chunk]
    assert [payload.value for payload in payloads] == [b"998", b"999", b"0", b"1"]
    assert payloads[0].headers == [("name", b"value")]


def test_more_than_has_room_at_once_is_written_whole_and_where_its_keys_belong(
    parts: Stack,
) -> None:
    one_by_one, at_once = (_topic(parts, f"test.{name}.v1", 4) for name in ("single", "at-once"))
    keys = [b"key %d" % number for number in range(50)]
    writer = WriterOf("test", _kafka(parts), "lz4")()
    with writer.or_nothing():
        for key in keys:
            writer.send(Outgoing(one_by_one, key, b"", []))
        writer.send_all(at_once, ((keys[number % 50], bytes(1_000)) for number in range(100_000)))
        writer.flush()
    where: list[dict[bytes | None, int]] = [{}, {}]
    counts = Counter[bytes | None]()
    for topic, found in zip((one_by_one, at_once), where, strict=True):
        ends = LogOffsets(_kafka(parts), "test", [topic]).ends()
        its = [LogRange(*at, 0, end) for at, end in ends.items() if end]
        for chunk in RangeReader(_kafka(parts), "test").read(its):
            found.update({message.key(): message.partition() or 0 for message in chunk})
            counts.update(message.key() for message in chunk if topic == at_once)
    assert where[0] == where[1]
    assert counts == dict.fromkeys(keys, 2_000)


def test_a_record_that_its_topic_refuses_fails_the_task(parts: Stack) -> None:
    topic = _topic(parts, "test.refused.v1", 1, **{"max.message.bytes": "1000"})
    writer = WriterOf("test", _kafka(parts), "none")()
    with pytest.raises(KafkaException, match="size"), writer.or_nothing():
        writer.send(Outgoing(topic, b"key", b"x" * 2_000, []))
        writer.flush()
    with pytest.raises(KafkaException, match="size"), writer.or_nothing():
        writer.send_all(topic, [(b"key", b"x"), (b"other", b"x" * 2_000)])
        writer.flush()
    with pytest.raises(KafkaException, match="size"), writer.or_nothing():
        writer.send_all(topic, [(b"key", bytes(2 * RECORD_BYTES_MAX))])
    with writer.or_nothing():
        writer.send(Outgoing(topic, b"key", b"x", []))
        writer.flush()


def test_no_record_passes_one_that_was_refused(parts: Stack) -> None:
    topic = _topic(parts, "test.gapless.v1", 1, **{"max.message.bytes": "1000"})
    ends = LogOffsets(_kafka(parts), "test", [topic])
    writer = WriterOf("test", _kafka(parts), "none")()

    def one_after_the_other(*values: bytes) -> None:
        for value in values:
            writer.send(Outgoing(topic, b"key", value, []))
            time.sleep(0.1)  # longer than a record waits for others: each is a batch of its own

    with pytest.raises(KafkaException, match="size"), writer.or_nothing():
        one_after_the_other(b"first")
        writer.flush()  # whatever a new producer has to ask first is known then
        one_after_the_other(b"x" * 2_000, b"third", b"fourth")
        writer.flush()
    assert ends.ends() == {(topic, 0): 1}
    with writer.or_nothing():
        one_after_the_other(b"second")
        writer.flush()
    assert ends.ends() == {(topic, 0): 2}


def test_what_a_log_does_not_have_any_more_is_not_waited_for(parts: Stack) -> None:
    topic = _topic(parts, "test.cut.v1", 1)
    _write(parts, topic, 20)
    reader = RangeReader(_kafka(parts), "test", stalled_s=1)
    with pytest.raises(LogCutError, match=r"test.cut.v1/0 ends at 20, it was planned to 40"):
        _read(reader, LogRange(topic, 0, 15, 40))
    with pytest.raises(StalledError, match="has given nothing for 1 s"):
        _read(RangeReader(KafkaAccess("127.0.0.1:1"), "test", 1), LogRange(topic, 0, 0, 1))
    assert _read(reader, LogRange(topic, 0, 15, 20)) == {(topic, 0): list(range(15, 20))}


def _source(parts: Stack, tmp_path: Path, topic: str, kafka: KafkaAccess | None = None) -> Source:
    return Source("test", kafka or _kafka(parts), (topic,), None, tmp_path / "job", 100, 2, b"")


def test_a_query_that_has_to_begin_again_begins_where_it_did(parts: Stack, tmp_path: Path) -> None:
    topic = _topic(parts, "test.begins.v1", 1)
    _write(parts, topic, 10)
    source = _source(parts, tmp_path, topic)
    assert LogReader(source).initialOffset() == {topic: {"0": 0}}
    admin = AdminClient({"bootstrap.servers": parts.kafka_bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 5)]).values():
        deleted.result(60)
    assert LogReader(source).initialOffset() == {topic: {"0": 0}}
    given = replace(source, begins_at={topic: {0: 7}}, checkpoint=tmp_path / "other")
    assert LogReader(given).initialOffset() == {topic: {"0": 7}}


def test_batches_are_planned_up_to_the_end_and_no_broker_means_no_more(
    parts: Stack, tmp_path: Path
) -> None:
    topic = _topic(parts, "test.planned.v1")
    _write(parts, topic, 130)
    _write(parts, topic, 70, partition=1)
    reader = LogReader(_source(parts, tmp_path, topic))
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    half, end = {topic: {"0": 65, "1": 35}}, {topic: {"0": 130, "1": 70}}
    assert reader.latestOffset(start, limit) == half
    assert reader.latestOffset(half, limit) == reader.latestOffset(end, limit) == end
    with_one_that_is_read_no_more = {**half, "test.gone.v1": {"0": 7}}
    assert reader.latestOffset(with_one_that_is_read_no_more, limit) == end
    (task,) = reader.partitions(start, half)
    assert isinstance(task, Task)
    assert sorted(task.ranges) == [LogRange(topic, 0, 0, 65), LogRange(topic, 1, 0, 35)]
    assert reader.partitions(end, end) == []
    assert reader.partitions(end, {**end, "test.gone.v1": {"0": 7}}) == []
    cut_off = LogReader(_source(parts, tmp_path, topic, KafkaAccess("127.0.0.1:1")))
    assert cut_off.latestOffset(half, limit) == half


@pytest.mark.parametrize("at_most_every_s", [0.0, 1.0])
def test_a_job_that_found_nothing_looks_again_when_one_that_stays_has_written(
    parts: Stack, tmp_path: Path, at_most_every_s: float
) -> None:
    topic = _topic(parts, f"test.woken{at_most_every_s:g}.v1", 1)
    wakes = tmp_path / "wakes"
    source = replace(_source(parts, tmp_path, topic), wakes=wakes)
    reader = LogReader(replace(source, looks_every_s=30.0, at_most_every_s=at_most_every_s))
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    begun_s = time.monotonic()
    assert reader.latestOffset(start, limit) == start
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(reader.latestOffset, start, limit)
        _write(parts, topic, 5)
        assert not waiting.done()
        wakes.touch()
        assert waiting.result(60) == {topic: {"0": 5}}
    assert time.monotonic() - begun_s >= at_most_every_s


def test_a_job_pauses_between_two_looks(parts: Stack, tmp_path: Path) -> None:
    topic = _topic(parts, "test.pause.v1", 1)
    _write(parts, topic, 5)
    source = replace(_source(parts, tmp_path, topic), wakes=tmp_path / "wakes")
    reader = LogReader(replace(source, looks_every_s=0.5))
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    begun_s = time.monotonic()
    end = reader.latestOffset(start, limit)
    assert end == {topic: {"0": 5}}
    assert reader.latestOffset(end, limit) == end
    assert time.monotonic() - begun_s >= 0.5


def _offsets_of(rounds: Iterator[tuple[list[Message], Offsets]]) -> tuple[list[int], Offsets]:
    read, up_to = [], {}
    for messages, at in rounds:
        read += [message.offset() or 0 for message in messages]
        up_to = at
    return read, up_to


def test_who_stays_at_a_log_reads_what_comes_until_its_time_is_over(parts: Stack) -> None:
    topic = _topic(parts, "test.tail.v1")
    _write(parts, topic, 7)
    reader = TailReader(_kafka(parts), "test")
    for begin in (3, 5):  # the second time on the same connections
        with ThreadPoolExecutor() as pool:
            staying = pool.submit(
                _offsets_of, reader.rounds({topic: {0: begin, 1: 0}}, stays_s=3.0)
            )
            time.sleep(0.5)
            _write(parts, topic, 2)
            read, up_to = staying.result(60)
        end = begin + len(read)
        assert read == list(range(begin, end))
        assert up_to == {topic: {0: end, 1: 0}}
    assert end == 11


def test_who_cannot_keep_up_stays_no_longer(parts: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = _topic(parts, "test.tail-behind.v1", 1)
    _write(parts, topic, 100)
    monkeypatch.setattr(read_tail, "_AT_ONCE", 10)
    rounds = TailReader(_kafka(parts), "test").rounds({topic: {0: 0}}, stays_s=3600.0)
    assert _offsets_of(rounds) == (list(range(30)), {topic: {0: 30}})
    monkeypatch.setattr(read_tail, "_AT_ONCE", 1_000)
    monkeypatch.setattr(read_tail, "_SLOW_S", 0.0)
    read = 0
    for messages, _ in TailReader(_kafka(parts), "test").rounds({topic: {0: 0}}, stays_s=3600.0):
        read += len(messages)
        _write(parts, topic, 1)
    assert read == 102


def test_who_stays_at_a_log_does_not_pass_over_what_has_expired(parts: Stack) -> None:
    topic = _topic(parts, "test.tail-expired.v1", 1)
    _write(parts, topic, 100)
    admin = AdminClient({"bootstrap.servers": parts.kafka_bootstrap})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 50)]).values():
        deleted.result(60)
    with pytest.raises(KafkaException):
        list(TailReader(_kafka(parts), "test").rounds({topic: {0: 49}}, stays_s=20.0))


def test_who_stays_at_a_log_ends_with_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_LEASES", "")  # which a lease sets for good
    lease = Lease(tmp_path, "test")
    lease.extend(now_s())
    lease.end()
    with pytest.raises(LeaseEndedError):
        tail = TailReader(KafkaAccess("127.0.0.1:1"), "test")
        list(tail.rounds({"a": {0: 0}}, 60.0, partial(check_lease, "test")))


def test_what_was_done_ahead_of_its_batch_is_in_no_later_one(parts: Stack, tmp_path: Path) -> None:
    topic = _topic(parts, "test.ahead.v1")
    _write(parts, topic, 30)
    source = replace(_source(parts, tmp_path, topic), stays_s=10.0)
    reader = LogReader(source)
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    end = reader.latestOffset(start, limit)
    assert end == {topic: {"0": 30, "1": 0}}
    (task,) = reader.partitions(start, end)
    assert isinstance(task, Task)
    assert (task.ranges, task.stays_from) == ((LogRange(topic, 0, 0, 30),), {topic: {0: 30, 1: 0}})
    _write(parts, topic, 20)
    _write(parts, topic, 5, partition=1)
    remember_ahead(source.checkpoint, {topic: {0: 50, 1: 5}})
    remember_ahead(source.checkpoint, {topic: {0: 40, 1: 5}})
    assert ahead_at(source.checkpoint) == {topic: {0: 50, 1: 5}}
    # nothing is left for a batch, and a batch that has to run again has none of it
    assert reader.latestOffset(end, limit) == end
    (task,) = reader.partitions(start, end)
    assert isinstance(task, Task)
    assert (task.ranges, task.stays_from) == ((), {topic: {0: 50, 1: 5}})
    _write(parts, topic, 3)
    later = reader.latestOffset(end, limit)
    assert later == {topic: {"0": 53, "1": 5}}
    (task,) = reader.partitions(end, later)
    assert isinstance(task, Task)
    assert (task.ranges, task.stays_from) == ((LogRange(topic, 0, 50, 53),), {topic: {0: 53, 1: 5}})
    # who stays no more heeds it all the same
    others = LogReader(replace(source, stays_s=0.0)).partitions(end, later)
    assert [one.ranges for one in others if isinstance(one, Task)] == [
        (LogRange(topic, 0, 50, 53),)
    ]


def test_a_large_batch_has_all_tasks_and_a_small_one_stays(parts: Stack, tmp_path: Path) -> None:
    topic = _topic(parts, "test.small.v1")
    reader = LogReader(replace(_source(parts, tmp_path, topic), stays_s=5.0, records_max=10_000))
    _write(parts, topic, 10)
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    small = reader.latestOffset(start, limit)
    assert small == {topic: {"0": 10, "1": 0}}
    (task,) = reader.partitions(start, small)
    assert isinstance(task, Task)
    assert task.stays_from == {topic: {0: 10, 1: 0}}
    _write(parts, topic, 3_000)
    _write(parts, topic, 3_000, partition=1)
    tasks = reader.partitions(start, reader.latestOffset(start, limit))
    assert [task.stays_from for task in tasks if isinstance(task, Task)] == [None, None]


def test_what_a_task_has_done_while_it_stays_wakes_who_waits_for_it(
    parts: Stack, tmp_path: Path
) -> None:
    topic = _topic(parts, "test.wakes.v1", 1)
    done: list[int] = []

    def work(chunks: Iterator[list[Message]]) -> Iterator[Any]:
        done.extend(len(chunk) for chunk in chunks)
        yield from ()

    source = replace(
        _source(parts, tmp_path, topic),
        work=cloudpickle.dumps(work),  # type: ignore[no-untyped-call]
        wakes=tmp_path / "wakes",
        stays_s=3.0,
    )
    (tmp_path / "job").mkdir()
    with ThreadPoolExecutor() as pool:
        staying = pool.submit(lambda: list(work_on(source, Task((), {topic: {0: 0}}))))
        eventually((tmp_path / "wakes").exists)  # it is there
        time.sleep(0.1)  # the clock of files is a coarse one
        writes_s = time.time()
        _write(parts, topic, 3)  # which may be done before this hears that they are written
        staying.result(60)
    assert (tmp_path / "wakes").stat().st_mtime >= writes_s
    assert ahead_at(source.checkpoint) == {topic: {0: 3}}
