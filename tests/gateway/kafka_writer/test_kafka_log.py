"""The raw log on a producer that misbehaves in the ways that the real one is known to."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
    TopicAuthorizationFailedError,
)

from gateway.kafka_writer import kafka_log, producer_keeper
from gateway.kafka_writer.kafka_log import KafkaLog
from gateway.kafka_writer.known_partitions import KnownPartitions
from gateway.kafka_writer.outcome import (
    NotWritten,
    Outcome,
    OutcomeUnknown,
    Receipt,
    Record,
    Spooled,
    append_all,
)
from gateway.kafka_writer.partition_queue import Writer
from shared.settings import GatewaySettings
from tests.gateway.support import eventually

TOPIC = "ingest.telemetry.v1"
RECORD = Record(b"key", b"value", [])  # murmur2 puts it on the second of two partitions
BATCH_RECORDS_MAX = 3
FORMLESS = b"formless"
DEADLINE_S = 0.2


class FakeBatch:
    def __init__(self) -> None:
        self.values: list[bytes] = []

    def append(self, *, value: bytes, **_: object) -> object:
        if len(self.values) == BATCH_RECORDS_MAX:
            return None
        if value == FORMLESS:
            raise TypeError(value)
        self.values.append(value)
        return object()

    def close(self) -> None:
        return None


class FakeProducer:
    made: list["FakeProducer"]
    starts_fail = 0
    together_max = BATCH_RECORDS_MAX  # more are too large for the topic
    why: type[Exception] = KafkaConnectionError

    def __init__(self, **_: object) -> None:
        self.made.append(self)
        self.answer: Any = SimpleNamespace(offset=7, log_start_offset=0)
        self.send_hangs = self.stop_hangs = False
        self.topics: set[str] = {TOPIC}
        self.unauthorized: set[str] = set()
        self.answers_probes = self.answers_updates = True
        self.count, self.updates, self.widened_at = 2, 0, 0
        self.batches: list[list[bytes]] = []
        self.leaders: dict[int, int] = {}
        self._sender = SimpleNamespace(sender_task=None, _fail_all=None)
        self.client = SimpleNamespace(
            cluster=SimpleNamespace(
                partitions_for_topic=self._partitions,
                leader_for_partition=self._leader,
                unauthorized_topics=self.unauthorized,
            ),
            set_topics=self._nothing,
            force_metadata_update=self._update,
            fetch_all_metadata=self._probe,
            close=self._nothing,
        )

    async def start(self) -> None:
        if FakeProducer.starts_fail:
            FakeProducer.starts_fail -= 1
            raise FakeProducer.why
        self._sender.sender_task = asyncio.create_task(asyncio.Event().wait())

    async def stop(self) -> None:
        if self.stop_hangs:
            await asyncio.Event().wait()
        if self._sender.sender_task is not None:
            self._sender.sender_task.cancel()

    def create_batch(self) -> "FakeBatch":
        return FakeBatch()

    async def send_batch(
        self, batch: "FakeBatch", _topic: str, *, partition: int
    ) -> "asyncio.Future[Any]":
        assert partition == 1
        self.batches.append(batch.values)
        if self.send_hangs:
            await asyncio.Event().wait()
        future = asyncio.get_running_loop().create_future()
        if len(batch.values) > self.together_max:
            future.set_exception(MessageSizeTooLargeError())
        elif isinstance(self.answer, BaseException):
            future.set_exception(self.answer)
        elif self.answer is not None:
            future.set_result(self.answer)
        return future

    def _partitions(self, topic: str) -> set[int] | None:
        return set(range(self.count)) if topic in self.topics else None

    def _leader(self, place: TopicPartition) -> int:
        return self.leaders.get(place.partition, 1)

    async def _probe(self) -> None:
        if not self.answers_probes:
            raise KafkaConnectionError

    async def _update(self) -> bool:
        self.updates += 1
        if self.updates == self.widened_at:
            self.count = 4
        return self.answers_updates

    async def _nothing(self, *_: object) -> None:
        return None


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    FakeProducer.made, FakeProducer.starts_fail = [], 0
    FakeProducer.why = KafkaConnectionError
    monkeypatch.setattr(kafka_log, "AIOKafkaProducer", FakeProducer)
    monkeypatch.setattr(kafka_log, "_NEWS_PAUSE_S", 0.02)
    for name in ("_START_PAUSE_S", "_PROBE_EVERY_S", "_PROBE_DEADLINE_S", "_STOP_DEADLINE_S"):
        monkeypatch.setattr(producer_keeper, name, 0.02)
    yield


def test_an_acknowledged_record_has_its_place() -> None:
    async def body(log: KafkaLog) -> None:
        assert await _append(log) == Receipt(TOPIC, 1, 7)
        assert len(FakeProducer.made) == 1

    _with_log(body)


def test_a_record_without_an_ack_is_unknown_at_the_deadline_and_the_producer_replaced() -> None:
    async def body(log: KafkaLog) -> None:
        _last().answer = None
        _last().stop_hangs = True
        with pytest.raises(OutcomeUnknown):
            await _append(log)
        await eventually(lambda: len(FakeProducer.made) == 2 and log.is_healthy())
        assert await _append(log) == Receipt(TOPIC, 1, 7)

    _with_log(body)


def test_a_record_that_finds_no_room_in_time_is_definite() -> None:
    async def body(log: KafkaLog) -> None:
        _last().send_hangs = True
        with pytest.raises(NotWritten):
            await _append(log)
        await eventually(lambda: len(FakeProducer.made) == 2)

    _with_log(body)


@pytest.mark.parametrize("error", [OutOfOrderSequenceNumber(), KafkaError("dead sender")])
def test_any_unclear_error_is_unknown_and_the_producer_replaced(error: KafkaError) -> None:
    async def body(log: KafkaLog) -> None:
        _last().answer = error
        with pytest.raises(OutcomeUnknown):
            await _append(log)
        await eventually(lambda: len(FakeProducer.made) == 2)

    _with_log(body)


def test_a_record_that_the_broker_finds_too_large_is_definite_and_says_so() -> None:
    async def body(log: KafkaLog) -> None:
        _last().answer = MessageSizeTooLargeError()
        with pytest.raises(NotWritten, match="record_too_large"):
            await _append(log)

    _with_log(body)


@pytest.mark.parametrize("place", [{"offset": -1}, {"log_start_offset": -1}])
def test_an_ack_without_a_place_is_no_receipt(place: dict[str, int]) -> None:
    async def body(log: KafkaLog) -> None:
        _last().answer = SimpleNamespace(**{**vars(_last().answer), **place})
        with pytest.raises(OutcomeUnknown):
            await _append(log)

    _with_log(body)


def test_where_several_come_the_next_turn_of_the_loop_brings_some_that_travel_together() -> None:
    async def body(log: KafkaLog) -> None:
        await append_all(log, [(TOPIC, RECORD)] * 2)
        told: list[Outcome] = []
        loop = asyncio.get_running_loop()
        log.put(TOPIC, [RECORD._replace(value=b"0")], told.extend)
        loop.call_soon(log.put, TOPIC, [RECORD._replace(value=b"1")], told.extend)
        await eventually(lambda: len(told) == 2)
        assert _last().batches[1:] == [[b"0", b"1"]]

    _with_log(body)


def test_a_missing_topic_is_definite_and_costs_no_producer() -> None:
    async def body(log: KafkaLog) -> None:
        _last().topics.clear()
        with pytest.raises(NotWritten, match="topic_missing"):
            await _append(log)
        assert len(FakeProducer.made) == 1

    _with_log(body)


def test_a_topic_that_is_to_have_more_partitions_is_asked_for_until_it_has_them(
    tmp_path: Path,
) -> None:
    known = KnownPartitions(tmp_path, {})

    async def body(log: KafkaLog) -> None:
        assert await _append(log) == Receipt(TOPIC, 1, 7)
        known.remember(TOPIC, 4)
        log.forget(TOPIC)
        _last().widened_at = 2  # the first broker has not heard of it
        told: list[list[Outcome]] = []
        for number in range(3):
            log.put(TOPIC, [RECORD._replace(value=b"%d" % number)], told.append)
            await asyncio.sleep(0.005)
        await eventually(lambda: len(told) == 3)
        assert _last().updates == 2
        assert [value for batch in _last().batches[1:] for value in batch] == [b"0", b"1", b"2"]

    _with_log(body, state_dir=tmp_path)
    assert known.of(TOPIC) == 4


def test_as_long_as_kafka_does_not_say_how_many_it_has_nothing_is_written(tmp_path: Path) -> None:
    known = KnownPartitions(tmp_path, {})

    async def body(log: KafkaLog) -> None:
        await _append(log)
        known.remember(TOPIC, 4)
        log.forget(TOPIC)
        _last().answers_updates = False
        with pytest.raises(NotWritten, match="kafka_unreachable"):
            await _append(log)
        assert known.of(TOPIC) == 4
        _last().answers_updates = True  # and it has those alone that it had
        assert await _append(log) == Receipt(TOPIC, 1, 7)

    _with_log(body, state_dir=tmp_path)
    assert known.of(TOPIC) == 2


def test_a_topic_that_the_gateway_may_not_even_see_is_not_told_as_missing() -> None:
    async def body(log: KafkaLog) -> None:
        _last().topics.clear()
        _last().unauthorized.add(TOPIC)
        with pytest.raises(NotWritten, match="not_authorized"):
            await _append(log)
        assert log.refusal() == f"Kafka does not let the gateway write to {TOPIC}"

    _with_log(body)


def test_a_refused_write_is_told_until_one_succeeds() -> None:
    async def body(log: KafkaLog) -> None:
        _last().answer = TopicAuthorizationFailedError(TOPIC)
        with pytest.raises(NotWritten, match="not_authorized"):
            await _append(log)
        assert TOPIC in log.refusal()
        await eventually(lambda: len(FakeProducer.made) == 2 and log.is_healthy())
        await _append(log)
        assert log.refusal() == ""

    _with_log(body)


def test_a_gateway_that_may_write_nowhere_says_so_until_it_may() -> None:
    async def body(log: KafkaLog) -> None:
        FakeProducer.starts_fail = 10**6
        FakeProducer.why = ClusterAuthorizationFailedError
        _last()._sender.sender_task.cancel()
        await eventually(log.refusal)
        with pytest.raises(NotWritten, match="not_authorized"):
            await _append(log)
        assert log.refusal() == "Kafka does not let the gateway write"
        FakeProducer.starts_fail = 0
        await eventually(log.is_healthy)
        await _append(log)
        assert log.refusal() == ""

    _with_log(body)


def test_a_dead_sender_task_is_noticed_without_a_record() -> None:
    async def body(log: KafkaLog) -> None:
        _last()._sender.sender_task.cancel()
        await eventually(lambda: len(FakeProducer.made) == 2 and log.is_healthy())

    _with_log(body)


def test_a_broker_that_does_not_answer_is_not_waited_for() -> None:
    async def body(log: KafkaLog) -> None:
        FakeProducer.starts_fail = 5
        _last().answers_probes = False
        await eventually(lambda: not log.is_healthy())
        with pytest.raises(NotWritten, match="kafka_unreachable"):
            await _append(log)
        await eventually(log.is_healthy)

    _with_log(body)


def test_it_starts_without_a_broker_and_keeps_trying() -> None:
    FakeProducer.starts_fail = 3

    async def body(_: KafkaLog) -> None:
        assert len(FakeProducer.made) == 4

    _with_log(body)


def test_records_that_still_wait_do_not_keep_it_from_stopping() -> None:
    async def body(log: KafkaLog) -> None:
        _last().answer = None
        _last().stop_hangs = True
        waiting = asyncio.create_task(_append(log))
        await eventually(lambda: bool(_last().batches))
        await log.stop()
        assert not log.is_healthy()
        with pytest.raises(OutcomeUnknown):
            await waiting

    _with_log(body)


def _with_log(
    body: Callable[[KafkaLog], Coroutine[Any, Any, None]],
    deadline_s: float = DEADLINE_S,
    state_dir: Path | None = None,
) -> None:
    with TemporaryDirectory() as folder:
        settings = GatewaySettings(
            produce_deadline_s=deadline_s, spool_bytes_max=0, state_dir=state_dir or Path(folder)
        )
        _run(body, settings)


def _run(body: Callable[[KafkaLog], Coroutine[Any, Any, None]], settings: GatewaySettings) -> None:
    async def run() -> None:
        log = KafkaLog(settings, [TOPIC])
        await log.start()
        await eventually(log.is_healthy)
        try:
            await body(log)
        finally:
            await log.stop()

    asyncio.run(run())


def test_records_that_come_at_once_travel_together_and_in_their_order() -> None:
    async def body(log: KafkaLog) -> None:
        records = [RECORD._replace(value=b"%d" % number) for number in range(5)]
        outcomes = await append_all(log, [(TOPIC, record) for record in records])
        assert _last().batches == [[b"0", b"1", b"2"], [b"3", b"4"]]
        assert outcomes == [Receipt(TOPIC, 1, offset) for offset in (7, 8, 9, 7, 8)]

    _with_log(body)


def test_what_is_too_large_only_together_travels_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeProducer, "together_max", 1)

    async def body(log: KafkaLog) -> None:
        for outcome in await append_all(log, [(TOPIC, RECORD)] * 3):
            assert isinstance(outcome, NotWritten)
            assert outcome.code == "kafka_unreachable"  # to be sent again, or spooled
        await eventually(log.is_healthy)
        outcomes = await append_all(log, [(TOPIC, RECORD)] * 3)
        assert outcomes == [Receipt(TOPIC, 1, 7)] * 3
        monkeypatch.setattr(FakeProducer, "together_max", 0)
        (outcome,) = await append_all(log, [(TOPIC, RECORD)])
        assert isinstance(outcome, NotWritten)
        assert outcome.code == "record_too_large"

    _with_log(body)


def test_a_record_that_has_no_form_is_refused_alone() -> None:
    async def body(log: KafkaLog) -> None:
        formless = RECORD._replace(value=FORMLESS)
        for records in ([RECORD, formless, RECORD], [formless]):
            outcomes = await append_all(log, [(TOPIC, record) for record in records])
            told = [isinstance(outcome, Receipt) for outcome in outcomes]
            assert told == [record is RECORD for record in records]
        assert len(FakeProducer.made) == 1

    _with_log(body)


def test_a_fault_in_writing_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_writer: Writer, _producer: object, under_way: dict[object, object]) -> None:
        if under_way:
            raise RuntimeError

    async def body(log: KafkaLog) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Writer, "_await_all", fail)
            outcomes = await append_all(log, [(TOPIC, RECORD)] * 5)
        assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown] * 3 + [NotWritten] * 2
        await eventually(lambda: len(FakeProducer.made) == 2 and log.is_healthy())
        assert await _append(log) == Receipt(TOPIC, 1, 7)

    _with_log(body)


def test_whoever_cannot_hear_an_outcome_keeps_it_from_nobody_else() -> None:
    async def body(log: KafkaLog) -> None:
        heard: list[Outcome] = []

        def deaf(_: list[Outcome]) -> None:
            raise RuntimeError

        for on_written in (deaf, heard.extend):
            log.put(TOPIC, [RECORD], on_written)
        await append_all(log, [(TOPIC, RECORD)])
        assert [type(outcome) for outcome in heard] == [Receipt]

    _with_log(body)


def test_what_waits_behind_a_batch_that_fails_is_definite_and_never_handed_over() -> None:
    async def body(log: KafkaLog) -> None:
        _last().answer = OutOfOrderSequenceNumber()
        producer = _last()
        outcomes = await append_all(log, [(TOPIC, RECORD)] * 5)
        assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown] * 3 + [NotWritten] * 2
        assert len(producer.batches) == 1

    _with_log(body)


def test_each_record_waits_no_longer_than_its_deadline() -> None:
    async def body(log: KafkaLog) -> None:
        _last().answer = None
        _last().stop_hangs = True
        first = asyncio.create_task(_outcome(log))
        await asyncio.sleep(long_s / 2)
        begun_s = asyncio.get_running_loop().time()
        assert isinstance(await _outcome(log), NotWritten)
        assert asyncio.get_running_loop().time() - begun_s <= long_s
        assert isinstance(await first, OutcomeUnknown)

    long_s = 1.0  # so that a machine may stand still for a moment
    _with_log(body, long_s)


def test_without_a_producer_every_record_is_refused() -> None:
    async def body() -> None:
        log = KafkaLog(GatewaySettings(), [TOPIC])
        outcomes = await append_all(log, [(TOPIC, RECORD)] * 3)
        assert [type(outcome) for outcome in outcomes] == [NotWritten] * 3

    asyncio.run(body())


async def _outcome(log: KafkaLog) -> Outcome:
    return (await append_all(log, [(TOPIC, RECORD)]))[0]


async def _append(log: KafkaLog) -> Receipt | Spooled:
    outcome = await _outcome(log)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _last() -> FakeProducer:
    return FakeProducer.made[-1]


def test_whoever_finds_the_port_open_finds_a_producer() -> None:
    async def body() -> None:
        log = KafkaLog(GatewaySettings(), [TOPIC])
        await log.start()
        assert log.is_healthy()
        await log.stop()

    asyncio.run(body())


def test_a_start_without_kafka_is_not_held_up_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeProducer.starts_fail = 10**9
    monkeypatch.setattr(producer_keeper, "_FIRST_WAIT_S", 0.05)

    async def body() -> None:
        log = KafkaLog(GatewaySettings(), [TOPIC])
        await log.start()
        assert not log.is_healthy()
        await log.stop()

    asyncio.run(body())
