"""Kafka or the spool, and back, without one payload overtaking another of its entity."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.ingest.durable_log import FULL, DurableLog
from gateway.kafka_writer.outcome import (
    NotWritten,
    OnWritten,
    Outcome,
    OutcomeUnknown,
    Receipt,
    Record,
    Spooled,
    append_all,
)
from gateway.kafka_writer.partition_queue import AWAY
from gateway.spool import drain
from gateway.spool import spool_log as spool_module
from gateway.spool.drain import SpoolDrain
from gateway.spool.spool import Spool
from shared.events.envelope import RECEIVED, TIME
from tests.gateway.support import eventually

TOPIC, OTHER = "ingest.telemetry.v1", "ingest.status.v1"


class FakeKafka:
    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.away = False
        self.outcomes: list[Outcome] = []  # of the next ones, before all goes well again
        self.pause_s = 0.0
        self.together_max = 1_000_000  # more do not arrive in time
        self.refused: dict[str, str] = {}  # topics, and why
        self.records: list[Record] = []

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def forget(self, topic: str) -> None: ...

    def is_healthy(self) -> bool:
        return not self.away

    def put(self, topic: str, records: Sequence[Record], on_written: OnWritten) -> None:
        if len(records) > self.together_max:
            on_written([OutcomeUnknown()] * len(records))
            return
        told = [self._outcome(topic, record) for record in records]
        if all(isinstance(outcome, Receipt) for outcome in told):
            asyncio.get_running_loop().call_later(self.pause_s, on_written, told)
        else:
            on_written(told)

    def _outcome(self, topic: str, record: Record) -> Outcome:
        if self.away:
            return NotWritten("kafka_unreachable", "Kafka is away")
        if self.outcomes:
            return self.outcomes.pop(0)
        if topic in self.refused:
            return NotWritten(self.refused[topic], "")
        self.values.append(record.value)
        self.records.append(record)
        return Receipt(topic, 0, len(self.values) - 1)


class Parts:
    def __init__(self, folder: Path, bytes_max: int = 1024 * 1024) -> None:
        self.kafka = FakeKafka()
        self.spool = Spool(folder, bytes_max, [TOPIC, OTHER])
        self.log = DurableLog(self.kafka, self.spool)
        self.drain = SpoolDrain(self.kafka, self.spool)

    async def append(self, value: bytes, topic: str = TOPIC) -> Outcome:
        return (await append_all(self.log, [(topic, _record(value))]))[0]

    async def drained(self) -> None:
        await self.drain.start()
        async with asyncio.timeout(10):
            while not self.spool.is_empty():
                await asyncio.sleep(0.01)
        await self.drain.stop()


def _record(value: bytes) -> Record:
    return Record(b"device-0001", value, [])


def _run(parts: Parts, body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(body())
    parts.spool.close()


def test_while_kafka_takes_payloads_nothing_touches_the_disk(tmp_path: Path) -> None:
    parts = Parts(tmp_path)

    async def body() -> None:
        assert await parts.append(b"1") == Receipt(TOPIC, 0, 0)
        assert list(tmp_path.glob("**/*.frames")) == []

    _run(parts, body)


@pytest.mark.parametrize(
    "failure", [OutcomeUnknown(), NotWritten("kafka_unreachable", "Kafka takes nothing")]
)
def test_what_kafka_does_not_take_is_spooled_and_brought_later(
    tmp_path: Path, failure: Outcome
) -> None:
    parts = Parts(tmp_path)

    async def body() -> None:
        parts.kafka.outcomes = [failure]
        assert await parts.append(b"1") == Spooled(TOPIC)
        assert await parts.append(b"2") == Spooled(TOPIC)  # not past the first
        assert parts.kafka.values == []
        await parts.drained()
        assert await parts.append(b"3") == Receipt(TOPIC, 0, 2)
        assert parts.kafka.values == [b"1", b"2", b"3"]

    _run(parts, body)


@pytest.mark.parametrize("code", ["record_too_large", "topic_missing", "not_authorized"])
def test_what_only_an_operator_can_cure_is_not_spooled(tmp_path: Path, code: str) -> None:
    parts = Parts(tmp_path)

    async def body() -> None:
        parts.kafka.outcomes = [NotWritten(code, "")]
        outcome = await parts.append(b"1")
        assert isinstance(outcome, NotWritten)
        assert outcome.code == code
        assert parts.spool.is_empty()

    _run(parts, body)


def test_a_full_spool_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    parts = Parts(tmp_path, bytes_max=200)

    async def body() -> None:
        parts.kafka.away = True
        outcomes = [await parts.append(b"%d" % number) for number in range(9)]
        kept = outcomes.index(next(o for o in outcomes if isinstance(o, NotWritten)))
        assert outcomes[:kept] == [Spooled(TOPIC)] * kept
        assert {o.code for o in outcomes[kept:] if isinstance(o, NotWritten)} == {"spool_full"}
        parts.kafka.away = False
        await parts.drained()
        assert parts.kafka.values == [b"%d" % number for number in range(kept)]

    _run(parts, body)


def test_what_kafka_may_have_taken_stays_unknown_where_the_spool_is_full(tmp_path: Path) -> None:
    parts = Parts(tmp_path, bytes_max=10)

    async def body() -> None:
        parts.kafka.outcomes = [OutcomeUnknown(), NotWritten("kafka_unreachable", "")]
        assert isinstance(await parts.append(b"1"), OutcomeUnknown)
        refused = await parts.append(b"2")
        assert isinstance(refused, NotWritten)
        assert refused.code == "spool_full"

    _run(parts, body)


def test_a_failing_disk_is_no_receipt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = Parts(tmp_path)

    def fail(_: object) -> int:
        raise OSError("Input/output error")

    async def body() -> None:
        monkeypatch.setattr(parts.spool.of(TOPIC), "append", fail)
        parts.kafka.away = True
        assert isinstance(await parts.append(b"1"), OutcomeUnknown)

    _run(parts, body)


@pytest.mark.parametrize("code", ["record_too_large", "record_formless"])
def test_one_that_kafka_will_never_take_does_not_hold_the_others_up(
    tmp_path: Path, code: str
) -> None:
    parts = Parts(tmp_path)

    async def body() -> None:
        parts.kafka.away = True
        for value in (b"1", b"2", b"3"):
            await parts.append(value)
        parts.kafka.away = False
        parts.kafka.outcomes = [NotWritten(code, "")]
        await parts.drained()
        assert parts.kafka.values == [b"2", b"3"]
        (kept,) = (tmp_path / "set-aside").iterdir()
        assert kept.name.startswith(f"{code}-{TOPIC}-")
        assert b"device-00011" in kept.read_bytes()
        assert parts.spool.state().set_aside_payloads == 1

    _run(parts, body)


def test_a_drain_that_fails_in_the_middle_goes_on_where_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "_AGAIN_S", 0.01)
    parts = Parts(tmp_path)

    async def body() -> None:
        parts.kafka.away = True
        for number in range(6):
            await parts.append(b"%d" % number)
        parts.kafka.away = False
        parts.kafka.outcomes = [OutcomeUnknown()] * 9
        await parts.drained()
        # what was sent again kept its order behind what it had failed with
        assert sorted(parts.kafka.values) == [b"%d" % number for number in range(6)]
        assert parts.kafka.values == sorted(parts.kafka.values[:3]) + sorted(parts.kafka.values[3:])

    _run(parts, body)


def test_over_a_slow_way_the_drain_brings_fewer_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "_AGAIN_S", 0.01)
    parts = Parts(tmp_path)

    async def body() -> None:
        parts.kafka.away = True
        for number in range(10):
            await parts.append(b"%d" % number)
        parts.kafka.away, parts.kafka.together_max = False, 3
        await parts.drained()
        assert parts.kafka.values == [b"%d" % number for number in range(10)]

    _run(parts, body)


def test_whoever_cannot_hear_that_it_was_spooled_keeps_it_from_nobody_else(tmp_path: Path) -> None:
    parts = Parts(tmp_path)

    async def body() -> None:
        parts.kafka.away = True
        heard: list[Outcome] = []

        def deaf(_: list[Outcome]) -> None:
            raise RuntimeError

        for on_written in (deaf, heard.extend):
            parts.log.put(TOPIC, [_record(b"1")], on_written)
        async with asyncio.timeout(10):
            while not heard:
                await asyncio.sleep(0.01)
        assert heard == [Spooled(TOPIC)]

    _run(parts, body)


def test_under_load_the_drain_still_comes_to_its_end_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "_CLOSED_S", 5.0)  # a slow machine, too, ends within it
    parts = Parts(tmp_path)

    async def body() -> None:
        over = asyncio.Event()
        sent: dict[int, list[bytes]] = {client: [] for client in range(8)}
        direct = 0

        async def client(number: int) -> None:
            nonlocal direct
            while not over.is_set():
                value = b"%d %d" % (number, len(sent[number]))
                sent[number].append(value)
                outcome = await parts.append(value)
                assert not isinstance(outcome, Exception)
                direct += isinstance(outcome, Receipt)

        parts.kafka.away = True
        clients = [asyncio.create_task(client(number)) for number in sent]
        await asyncio.sleep(0.2)
        assert direct == 0
        parts.kafka.away = False
        parts.kafka.pause_s = 0.002
        await parts.drain.start()
        async with asyncio.timeout(20):
            while direct < 100:
                await asyncio.sleep(0.01)
        over.set()
        await asyncio.gather(*clients)
        await parts.drain.stop()
        for number, values in sent.items():
            own = [v for v in parts.kafka.values if v.startswith(b"%d " % number)]
            assert own == values

    _run(parts, body)


def test_a_batch_of_one_entity_keeps_its_order_through_the_spool(tmp_path: Path) -> None:
    parts = Parts(tmp_path)

    async def body() -> None:
        parts.kafka.outcomes = [OutcomeUnknown()] * 3
        records = [(TOPIC, _record(b"%d" % number)) for number in range(3)]
        assert await append_all(parts.log, records) == [Spooled(TOPIC)] * 3
        await parts.drained()
        assert parts.kafka.values == [b"0", b"1", b"2"]

    _run(parts, body)


def test_of_a_batch_only_what_kafka_has_not_taken_is_spooled(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    too_large = NotWritten("record_too_large", "")

    async def body() -> None:
        taken = Receipt(TOPIC, 0, 5)
        parts.kafka.outcomes = [taken, too_large, OutcomeUnknown(), AWAY]
        records = [(TOPIC, _record(b"%d" % number)) for number in range(4)]
        outcomes = await append_all(parts.log, records)
        assert outcomes == [taken, too_large, Spooled(TOPIC), Spooled(TOPIC)]
        await parts.drained()
        assert parts.kafka.values == [b"2", b"3"]

    _run(parts, body)


def test_of_a_batch_the_spool_takes_the_first_for_which_it_has_room(tmp_path: Path) -> None:
    parts = Parts(tmp_path, bytes_max=4096)

    async def body() -> None:
        parts.kafka.away = True
        records = [(TOPIC, _record(b"%d" % n * 1000)) for n in range(8)]
        outcomes = await append_all(parts.log, records)
        spooled = outcomes.count(Spooled(TOPIC))
        assert 0 < spooled < 8
        assert outcomes == [Spooled(TOPIC)] * spooled + [FULL] * (8 - spooled)

    _run(parts, body)


@pytest.mark.parametrize("code", ["topic_missing", "not_authorized"])
def test_a_topic_that_kafka_does_not_take_keeps_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(drain, "_AGAIN_S", 0.01)
    parts = Parts(tmp_path)

    async def body() -> None:
        parts.kafka.away = True
        for number in range(5):
            await parts.append(b"stuck %d" % number)
        for number in range(5):
            await parts.append(b"%d" % number, OTHER)
        parts.kafka.away, parts.kafka.refused = False, {TOPIC: code}
        await parts.drain.start()
        await eventually(parts.spool.of(OTHER).is_empty)
        assert parts.kafka.values == [b"%d" % number for number in range(5)]
        assert isinstance(await parts.append(b"5", OTHER), Receipt)  # straight into Kafka
        assert await parts.append(b"stuck 5") == Spooled(TOPIC)  # behind those that are stuck
        await eventually(lambda: parts.spool.state().stuck)
        (stuck,) = parts.spool.state().stuck
        assert stuck[:2] == (TOPIC, code)
        assert abs(stuck.since_ms - time.time() * 1000) < 60_000
        await parts.drain.stop()

    _run(parts, body)
    again = Parts(tmp_path)  # as after a kill: nothing was closed in an orderly way for it

    async def later() -> None:
        again.kafka.refused = {TOPIC: code}
        await again.drain.start()
        await eventually(lambda: again.spool.state().stuck)
        assert isinstance(await again.append(b"6", OTHER), Receipt)
        again.kafka.refused = {}  # the operator has made it
        await eventually(again.spool.is_empty)
        await again.drain.stop()
        assert again.spool.state().stuck == ()
        assert again.kafka.values[1:] == [b"stuck %d" % number for number in range(6)]
        assert isinstance(await again.append(b"stuck 6"), Receipt)

    _run(again, later)


def test_what_is_stuck_and_drained_leaves_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though what is in front of it stays."""
    monkeypatch.setattr(spool_module, "_SEGMENT_BYTES", 2000)
    parts = Parts(tmp_path)

    async def body() -> None:
        parts.kafka.away = True
        await parts.append(b"stuck")
        for number in range(30):
            await parts.append(b"%d" % number * 50, OTHER)
        parts.kafka.away, parts.kafka.refused = False, {TOPIC: "topic_missing"}
        await parts.drain.start()
        await eventually(parts.spool.of(OTHER).is_empty)
        await parts.drain.stop()
        files = list(tmp_path.glob("topics/*/*.frames"))
        assert [file.parent.name for file in files] == [TOPIC]

    _run(parts, body)


@pytest.mark.slow
def test_after_a_long_wait_the_drain_does_not_rest_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "_READ_BYTES", 100)  # one at a time
    monkeypatch.setattr(drain, "_REST_MAX_S", 0.05)
    monkeypatch.setattr(drain, "_AGAIN_S", 0.1)
    parts = Parts(tmp_path)

    async def body() -> None:
        parts.kafka.away = True
        for number in range(5):
            await parts.append(b"%d" % number)
        parts.kafka.away, parts.kafka.refused = False, {TOPIC: "topic_missing"}
        await parts.drain.start()
        await asyncio.sleep(2)
        parts.kafka.refused = {}
        begun_s = time.monotonic()
        await eventually(lambda: parts.kafka.values)
        first_s = time.monotonic()
        await eventually(parts.spool.is_empty)
        assert time.monotonic() - first_s < 1.5, first_s - begun_s
        await parts.drain.stop()

    _run(parts, body)


def test_what_the_drain_brings_says_when_it_was_received(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    told = Record(b"device-0001", b"told", [(TIME, b"2026-11-24T10:00:00.123Z")])
    untold = Record(b"device-0001", b"untold", [("ce_id", b"an-id")])

    async def body() -> None:
        await append_all(parts.log, [(TOPIC, told)])
        parts.kafka.away = True
        await append_all(parts.log, [(TOPIC, told), (TOPIC, untold)])
        parts.kafka.away = False
        await parts.drained()
        direct, first, second = (record.headers for record in parts.kafka.records)
        assert direct == told.headers
        assert first == [*told.headers, (RECEIVED, b"1795514400123")]
        assert second[:-1] == untold.headers
        assert abs(int(second[-1][1]) - time.time() * 1000) < 60_000

    _run(parts, body)


class SlowKafka(FakeKafka):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Record, OnWritten]] = []

    def put(self, topic: str, records: Sequence[Record], on_written: OnWritten) -> None:
        if self.away:
            super().put(topic, records, on_written)
        else:
            self.asked.append((records[0], on_written))


@pytest.mark.parametrize("another_is_spooled", [False, True])
def test_of_two_unanswered_requests_of_an_entity_the_earlier_is_spooled_first(
    tmp_path: Path, another_is_spooled: bool
) -> None:
    parts = Parts(tmp_path)
    kafka = parts.kafka = SlowKafka()
    parts.log, parts.drain = DurableLog(kafka, parts.spool), SpoolDrain(kafka, parts.spool)

    async def body() -> None:
        first = asyncio.create_task(parts.append(b"first"))
        await asyncio.sleep(0.01)
        kafka.away = True
        other = Record(b"device-0002", b"other", [])
        if another_is_spooled:
            assert (await append_all(parts.log, [(TOPIC, other)])) == [Spooled(TOPIC)]
        second = asyncio.create_task(parts.append(b"second"))
        third = asyncio.create_task(append_all(parts.log, [(TOPIC, other)]))
        assert await third == [Spooled(TOPIC)]  # waits for nobody
        assert not second.done()
        kafka.asked[0][1]([OutcomeUnknown()])
        assert await first == await second == Spooled(TOPIC)
        frames, _ = parts.spool.of(TOPIC).read()
        values = [frame.record.value for frame in frames if frame.record.key == b"device-0001"]
        assert values == [b"first", b"second"]

    _run(parts, body)


class QueueKafka(FakeKafka):
    """One queue, as KafkaLog has: a batch at a time, and what waits behind one that fails is
    refused. Of a batch whose fate is unknown all may have been written."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.fails = 0.0
        self._chance = chance
        self._lane: list[tuple[str, Sequence[Record], OnWritten]] = []
        self._writer: asyncio.Task[None] | None = None

    def put(self, topic: str, records: Sequence[Record], on_written: OnWritten) -> None:
        if self.away:
            on_written([AWAY] * len(records))
            return
        self._lane.append((topic, records, on_written))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())

    async def _write(self) -> None:
        while self._lane:
            batch, self._lane = self._lane, []
            await asyncio.sleep(self._chance.uniform(0, 0.01))
            failed = self._chance.random() < self.fails
            if not failed or self._chance.random() < 0.5:
                self.values += [record.value for _, records, _ in batch for record in records]
            for topic, records, on_written in batch:
                receipt = Receipt(topic, 0, 0)
                on_written([OutcomeUnknown() if failed else receipt] * len(records))
            if failed:
                refused, self._lane = self._lane, []
                for _, records, on_written in refused:
                    on_written([AWAY] * len(records))
        self._writer = None


@pytest.mark.parametrize("seed", range(8))
def test_whatever_kafka_does_each_entity_keeps_its_order_though_nobody_waits_for_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(drain, "_AGAIN_S", 0.01)
    monkeypatch.setattr(drain, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(spool_module, "_CLOSED_S", 5.0)
    chance = random.Random(seed)
    parts = Parts(tmp_path)
    kafka = parts.kafka = QueueKafka(chance)
    parts.log, parts.drain = DurableLog(kafka, parts.spool), SpoolDrain(kafka, parts.spool)

    async def body() -> None:
        await parts.drain.start()
        answers = []
        for number in range(300):
            if not number % 30:
                kafka.fails, kafka.away = chance.choice((0.0, 0.3, 0.9)), chance.random() < 0.3
            entity = b"%d" % chance.randrange(3)
            record = Record(entity, b"%s %d" % (entity, number), [])
            answers.append(asyncio.ensure_future(append_all(parts.log, [(TOPIC, record)])))
            await asyncio.sleep(chance.choice((0, 0, 0.001, 0.004)))
        kafka.fails, kafka.away = 0.0, False
        outcomes = [outcome for answer in answers for outcome in await answer]
        assert {type(outcome) for outcome in outcomes} <= {Receipt, Spooled}
        await eventually(parts.spool.is_empty)
        await parts.drain.stop()
        first = list(dict.fromkeys(kafka.values))
        assert len(first) == 300
        for entity in (b"0", b"1", b"2"):
            own = [int(value[2:]) for value in first if value.startswith(entity)]
            assert own == sorted(own)

    _run(parts, body)


def test_what_comes_while_an_earlier_one_is_on_its_way_to_the_disk_does_not_pass_it(
    tmp_path: Path,
) -> None:
    parts = Parts(tmp_path)

    async def body() -> None:
        parts.kafka.outcomes = [OutcomeUnknown()]
        both = [asyncio.create_task(parts.append(value)) for value in (b"1", b"2")]
        assert await asyncio.gather(*both) == [Spooled(TOPIC)] * 2
        await parts.drained()
        assert parts.kafka.values == [b"1", b"2"]

    _run(parts, body)
