"""Consumers on a real broker: killed, stopped, joined by another, and fed with poison."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from headrace_consumer import Consumer, Event
from headrace_consumer import consumer as looping

from local_stack.run.stack import Stack
from tests.consumer.conftest import FOLDER
from tests.kafka_log import eventually, read_topic

pytestmark = pytest.mark.stack

TOPIC, LETTERS = "event.pressed.v1", "dlq.tests-consumer.v1"
KEYS, COUNT, PARTITIONS = 40, 8_000, 4
COMMITTED_AHEAD_MAX = 100  # of at most once, lost with each kill


@pytest.fixture
def kafka(empty_kafka: Stack) -> str:
    admin = AdminClient({"bootstrap.servers": empty_kafka.kafka_bootstrap})
    topics = [NewTopic(TOPIC, PARTITIONS), NewTopic("event.reading.v1", 1)]
    for made in admin.create_topics(topics).values():
        made.result(30)
    return empty_kafka.kafka_bootstrap


def _write(kafka: str, events: list[tuple[str, int, str]]) -> None:
    """Key, number, what; as the product writes an event."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 20, "enable.idempotence": True})
    for key, number, what in events:
        id_ = f"{key}#{number}"
        value = {
            **{"id": id_, "type": "pressed", "entity_id": key, "time_ms": 1, "arrived_ms": 1},
            "data": {"n": number, "what": what},
        }
        headers = [("ce_id", id_.encode()), ("ce_type", b"pressed"), ("ce_subject", key.encode())]
        producer.produce(TOPIC, orjson.dumps(value), key, headers=headers)
        producer.poll(0)
    assert producer.flush(60) == 0


def _events() -> list[tuple[str, int, str]]:
    return [(f"key-{n % KEYS}", n // KEYS, "do") for n in range(COUNT)]


def _with_repeats(events: list[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    """Each tenth is written again, some hundred records later."""
    written = []
    for at, event in enumerate(events):
        written.append(event)
        if at > 300 and at % 10 == 0:
            written.append(events[at - 300])
    return written


class Worker:
    def __init__(self, kafka: str, folder: Path, deliver: str, seen: str = "seen.sqlite") -> None:
        self.out, self._log = folder / "handled", folder / "log"
        at = seen if seen == "-" else str(folder / seen)
        self._command = [sys.executable, "-m", "tests.consumer.worker"]
        self._command += [kafka, TOPIC, deliver, str(self.out), at]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Worker":
        path = os.pathsep.join([".", str(FOLDER)])
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, env={**os.environ, "PYTHONPATH": path}, stdout=log, stderr=log
            )
        return self

    def handled(self) -> list[tuple[str, int, str, float]]:
        if self.process is not None and self.process.poll() == 1:
            raise RuntimeError(self._log.read_text()[-3000:])
        text = self.out.read_text() if self.out.exists() else ""
        # of the last one a part may be there alone
        whole, _, _ = text.rpartition("\n")
        return [tuple(json.loads(line)) for line in whole.splitlines()]

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        assert self.process.poll() is None, self._log.read_text()[-3000:]
        self.process.send_signal(number)
        return self.process.wait(30)

    def kill_in_the_middle(self, times: int) -> None:
        for _ in range(times):
            before = len(self.handled())
            eventually(lambda: len(self.handled()) > before + 500, every_s=0.02)  # noqa: B023
            self.end(signal.SIGKILL)
            assert len(self.handled()) < COUNT
            self.start()


@contextmanager
def _working(worker: Worker) -> Iterator[Worker]:
    try:
        yield worker.start()
    finally:
        if worker.process is not None and worker.process.poll() is None:
            worker.process.kill()
            worker.process.wait()


def _two(kafka: str, folder: Path, deliver: str) -> tuple[Worker, Worker]:
    """With something to do, each with a memory of its own."""
    for name in ("one", "two"):
        (folder / name).mkdir()
    _write(kafka, _events())
    one, two = (Worker(kafka, folder / name, deliver, "-") for name in ("one", "two"))
    return one, two


def _handled_by(*workers: Worker) -> Counter[str]:
    return Counter(id_ for worker in workers for _, _, id_, _ in worker.handled())


@contextmanager
def _frozen(worker: Worker) -> Iterator[None]:
    assert worker.process is not None
    worker.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        worker.process.send_signal(signal.SIGCONT)


def _members(kafka: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": kafka})
    group = admin.describe_consumer_groups(["tests-consumer"])["tests-consumer"].result(30)
    return {one.member_id for one in group.members if one.assignment.topic_partitions}


def _until_it_is_out(kafka: str) -> None:
    before = _members(kafka)
    eventually(lambda: len(_members(kafka)) == 1, within_s=60)
    assert len(before) == 2


def _assert_in_order(handled: list[tuple[str, int, str, float]]) -> None:
    numbers: dict[str, dict[int, None]] = defaultdict(dict)
    for key, number, *_ in handled:
        numbers[key][number] = None
    assert all([*its] == sorted(its) for its in numbers.values())


@pytest.mark.parametrize("seen", ["seen.sqlite", "-"])
def test_at_least_once_misses_none_and_its_file_hides_repeats(
    kafka: str, tmp_path: Path, seen: str
) -> None:
    _write(kafka, _with_repeats(_events()))
    expected = {f"{key}#{number}" for key, number, _ in _events()}
    with _working(Worker(kafka, tmp_path, "at_least_once", seen)) as worker:
        worker.kill_in_the_middle(times=3)

        def found() -> Counter[str]:
            return Counter(id_ for _, _, id_, _ in worker.handled())

        eventually(lambda: found().keys() == expected, within_s=120)
        assert worker.end(signal.SIGTERM) == 0
    doubled = sum(found().values()) - len(expected)
    if seen == "-":  # what was not committed yet comes again
        assert doubled > 3
    else:  # only what was in work when the process was killed
        assert doubled <= 3
    _assert_in_order(worker.handled())


@pytest.mark.parametrize("seen", ["seen.sqlite", "-"])
def test_at_most_once_doubles_none_and_misses_little(kafka: str, tmp_path: Path, seen: str) -> None:
    """Without a file, too, as long as nothing stands in the log twice."""
    _write(kafka, _events() if seen == "-" else _with_repeats(_events()))
    last = [(f"key-{n}", COUNT // KEYS, "do") for n in range(KEYS)]
    with _working(Worker(kafka, tmp_path, "at_most_once", seen)) as worker:
        worker.kill_in_the_middle(times=3)

        def found() -> Counter[str]:
            return Counter(id_ for _, _, id_, _ in worker.handled())

        _write(kafka, last)  # none of these is lost
        eventually(lambda: {f"{key}#{n}" for key, n, _ in last} <= found().keys(), within_s=120)
        assert worker.end(signal.SIGTERM) == 0
    assert set(found().values()) == {1}
    assert COUNT + KEYS - 3 * COMMITTED_AHEAD_MAX <= len(found()) <= COUNT + KEYS
    # those of every tenth key are written twice: what a kill has lost comes late with its repeat
    _assert_in_order([one for one in worker.handled() if not one[0].endswith("0")])


def test_at_most_once_a_slow_handler_has_no_more_committed_before_it(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Than a kill may lose."""
    monkeypatch.setattr(looping, "_SERVED_FOR_S", 0.0)  # Kafka is asked again after each event
    _write(kafka, _events()[:400])
    places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    ahead: list[int] = []

    def handle(_event: Event[Any]) -> None:
        committed = consumer._client.committed(places, timeout=10)
        ahead.append(sum(max(place.offset, 0) for place in committed) - len(ahead))
        if len(ahead) == 400:
            consumer.stop()

    consumer = Consumer(
        handle, topics=[TOPIC], group="slow", bootstrap=kafka, deliver="at_most_once"
    )
    patience = threading.Timer(240, consumer.stop)
    patience.start()
    consumer.run()
    patience.cancel()
    assert len(ahead) == 400
    assert 1 < max(ahead) <= COMMITTED_AHEAD_MAX


@pytest.mark.parametrize("deliver", ["at_least_once", "at_most_once"])
def test_two_that_join_and_leave_handle_each_event_once(
    kafka: str, tmp_path: Path, deliver: str
) -> None:
    """Each with a memory of its own: what one has done the other is not given."""
    one, two = _two(kafka, tmp_path, deliver)

    def found() -> Counter[str]:
        return _handled_by(one, two)

    with _working(one), _working(two):
        eventually(lambda: bool(one.handled() and two.handled()), within_s=60, every_s=0.02)
        assert one.end(signal.SIGTERM) == 0
        assert len(found()) < COUNT
        one.start()
        eventually(lambda: len(found()) == COUNT, within_s=120)
        assert one.end(signal.SIGTERM) == two.end(signal.SIGTERM) == 0
    assert set(found().values()) == {1}


@pytest.mark.parametrize("deliver", ["at_least_once", "at_most_once"])
def test_one_that_was_frozen_goes_on_with_what_it_is_given_then(
    kafka: str, tmp_path: Path, deliver: str
) -> None:
    one, two = _two(kafka, tmp_path, deliver)
    last = [(f"key-{n}", COUNT // KEYS, "do") for n in range(KEYS)]
    expected = {f"{key}#{n}" for key, n, _ in last}

    def found() -> Counter[str]:
        return _handled_by(one, two)

    with _working(one), _working(two):
        eventually(lambda: bool(one.handled() and two.handled()), within_s=60, every_s=0.02)
        with _frozen(two):
            _until_it_is_out(kafka)
        eventually(lambda: len(_members(kafka)) == 2, within_s=60)
        _write(kafka, last)
        eventually(lambda: expected <= found().keys(), within_s=120)
        assert one.end(signal.SIGTERM) == two.end(signal.SIGTERM) == 0
    if deliver == "at_least_once":
        assert len(found()) == COUNT + KEYS
    else:
        assert set(found().values()) == {1}
        assert len(found()) >= COUNT + KEYS - COMMITTED_AHEAD_MAX


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize(("reset", "expected"), [("earliest", 0), ("latest", 2)])
def test_where_it_begins_is_known_before_it_reads(
    kafka: str, monkeypatch: pytest.MonkeyPatch, strategy: str, reset: str, expected: int
) -> None:
    """librdkafka, left to find the first offset, may find it again when others have gone on."""
    begun: dict[int, int] = {}

    class Recorded(looping.Client):  # type: ignore[misc,name-defined]
        def assign(self, places: list[TopicPartition]) -> None:
            begun.update({one.partition: one.offset for one in places})
            super().assign(places)

        def incremental_assign(self, places: list[TopicPartition]) -> None:
            begun.update({one.partition: one.offset for one in places})
            super().incremental_assign(places)

    monkeypatch.setattr(looping, "Client", Recorded)
    producer = Producer({"bootstrap.servers": kafka})
    for number in range(2 * PARTITIONS):
        producer.produce(TOPIC, b"{}", partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    settings = {"auto.offset.reset": reset, "partition.assignment.strategy": strategy}
    consumer = Consumer(
        lambda _event: None,
        topics=[TOPIC],
        group=f"begins-{strategy}-{reset}",
        bootstrap=kafka,
        kafka=settings,
    )
    running = threading.Thread(target=consumer.run)
    running.start()
    try:
        eventually(lambda: len(begun) == PARTITIONS, within_s=60)
    finally:
        consumer.stop()
        running.join(60)
    assert set(begun.values()) == {expected}


def test_poison_goes_to_the_dead_letters_and_the_others_go_on(kafka: str, tmp_path: Path) -> None:
    events = [(f"key-{n % KEYS}", n // KEYS, "do") for n in range(400)]
    events[0], events[1] = ("key-0", 0, "fail"), ("key-1", 0, "refuse")
    _write(kafka, events)
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(
        TOPIC, b"no json", "key-2", headers=[("ce_id", b"odd"), ("ce_type", b"pressed")]
    )
    assert producer.flush(60) == 0
    with _working(Worker(kafka, tmp_path, "at_least_once")) as worker:
        eventually(lambda: len(worker.handled()) == 398, within_s=120)
        assert worker.end(signal.SIGTERM) == 0
    _assert_in_order(worker.handled())
    came = read_topic(kafka, TOPIC)
    where = {one.headers["ce_id"].decode(): one for one in came}
    letters = {one.headers["ce_id"].decode(): one for one in read_topic(kafka, LETTERS)}
    told = {
        id_: tuple(letter.headers[f"dead_{name}"].decode() for name in ("reason", "attempts"))
        for id_, letter in letters.items()
    }
    assert told == {
        "key-0#0": ("handler_failed", "3"),
        "key-1#0": ("refused", "1"),
        "odd": ("not_json", "0"),
    }
    assert letters["key-0#0"].headers["dead_detail"] == b"RuntimeError: as it says"
    for id_, letter in letters.items():
        own = where[id_]
        place = f"{TOPIC}/{own.partition}/{own.offset}"
        assert (letter.key, letter.value) == (own.key, own.value)
        assert own.headers.items() <= letter.headers.items()
        assert letter.headers["dead_origin"].decode() == place
    # the partition of what fails waits for its three attempts, 1.5 s; the others do not
    first_at = _first_by_partition(worker.handled(), came)
    held = first_at.pop(where["key-0#0"].partition)
    assert held - max(first_at.values()) > 1.0


def _first_by_partition(handled: list[Any], came: list[Any]) -> dict[int, float]:
    partition_of = {one.headers["ce_id"].decode(): one.partition for one in came}
    found: dict[int, float] = {}
    for _, _, id_, at_s in handled:
        found.setdefault(partition_of[id_], at_s)
    return found


def test_nothing_of_it_comes_again_after_an_orderly_end(kafka: str, tmp_path: Path) -> None:
    _write(kafka, _events()[:1000])
    with _working(Worker(kafka, tmp_path, "at_least_once", "-")) as worker:
        eventually(lambda: len(worker.handled()) > 100, every_s=0.02)
        assert worker.end(signal.SIGTERM) == 0
        assert len(worker.handled()) < 1000
        worker.start()
        eventually(lambda: len(worker.handled()) >= 1000, within_s=120)
        assert worker.end(signal.SIGTERM) == 0
    assert len({id_ for _, _, id_, _ in worker.handled()}) == len(worker.handled()) == 1000


def test_the_example_of_the_page_for_consumers_runs(kafka: str, tmp_path: Path) -> None:
    page = (FOLDER.parent / "docs" / "consumers.md").read_text()
    (section,) = re.findall(r"## A consumer in Python\n(.+?)\n## ", page, re.S)
    (example,) = re.findall(r"```python\n(.+?)```", section, re.S)
    (tmp_path / "billing.py").write_text(example)
    producer = Producer({"bootstrap.servers": kafka})
    for value in (21.5, 22.0):
        data = {"value": value, "area": "area-01", "unit": None}
        event = {"type": "reading", "time_ms": 1, "data": data}
        told = [("ce_id", str(value).encode()), ("ce_type", b"reading"), ("ce_subject", b"d-1")]
        for _ in range(2):  # the second one is a repeat
            producer.produce("event.reading.v1", orjson.dumps(event), "d-1", headers=told)
    assert producer.flush(60) == 0
    environment = {"PYTHONPATH": str(FOLDER), "HEADRACE_KAFKA_BOOTSTRAP": kafka}
    process = subprocess.Popen(
        [sys.executable, "billing.py"],
        cwd=tmp_path,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(2)]
        assert lines == ["d-1 21.5 in area-01\n", "d-1 22.0 in area-01\n"]
    finally:
        process.terminate()
        rest, _ = process.communicate(timeout=30)
    assert (process.returncode, rest) == (0, "")
