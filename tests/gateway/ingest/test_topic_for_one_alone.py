"""What the gateway accepts while somebody wants a topic for himself, to give it partitions."""

import asyncio
import random
from pathlib import Path

import pytest

from gateway.ingest import durable_log
from gateway.ingest.durable_log import DurableLog
from gateway.kafka_writer.outcome import Receipt, Record, Spooled, append_all
from gateway.spool import drain
from gateway.spool import spool_log as spool_module
from gateway.spool.drain import SpoolDrain
from gateway.spool.writing_right import SoleRight
from tests.gateway.ingest.test_durable_log import OTHER, TOPIC, Parts, QueueKafka, SlowKafka, _run
from tests.gateway.support import eventually


class Forgetful(SlowKafka):
    def __init__(self) -> None:
        super().__init__()
        self.forgotten: list[str] = []

    def forget(self, topic: str) -> None:
        self.forgotten.append(topic)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_log, "_RIGHT_LOOK_S", 0.01)
    monkeypatch.setattr(drain, "_AGAIN_S", 0.01)
    monkeypatch.setattr(drain, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(spool_module, "_CLOSED_S", 5.0)


def _take(sole: SoleRight) -> bool:
    return sole.take(lambda: False)


def test_what_is_under_way_ends_and_what_comes_is_spooled(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    kafka = parts.kafka = Forgetful()
    parts.log, parts.drain = DurableLog(kafka, parts.spool), SpoolDrain(kafka, parts.spool)

    async def body() -> None:
        await parts.log.start()
        await parts.drain.start()
        first = asyncio.create_task(parts.append(b"1"))
        await eventually(lambda: len(kafka.asked) == 1)
        with SoleRight(tmp_path / "topics" / TOPIC) as sole:
            assert sole.somebody_writes()
            sole.ask()
            other = Record(b"device-0002", b"2", [])
            await asyncio.sleep(0.05)
            assert (await append_all(parts.log, [(TOPIC, other)])) == [Spooled(TOPIC)]
            assert not _take(sole)  # of the first one nothing is known yet
            kafka.asked.pop()[1]([Receipt(TOPIC, 0, 0)])
            assert await first == Receipt(TOPIC, 0, 0)
            await eventually(lambda: _take(sole))
            assert await parts.append(b"3") == Spooled(TOPIC)
            elsewhere = asyncio.create_task(parts.append(b"4", OTHER))
            await eventually(lambda: len(kafka.asked) == 1)  # that of the other topic
            kafka.asked.pop()[1]([Receipt(OTHER, 0, 0)])
            assert await elsewhere == Receipt(OTHER, 0, 0)
            await asyncio.sleep(0.05)
            assert not kafka.asked  # nor does the drain bring anything
            kafka.forgotten.clear()
        await eventually(lambda: len(kafka.asked) == 2)  # of two entities
        assert {record.value for record, _ in kafka.asked} == {b"2", b"3"}
        for _, on_written in kafka.asked:
            on_written([Receipt(TOPIC, 4, 0)])
        await eventually(parts.spool.is_empty)
        assert kafka.forgotten == [TOPIC] * 2  # by those who POST, and by the drain
        await parts.drain.stop()
        await parts.log.stop()

    _run(parts, body)


def test_who_gives_up_before_it_has_it_changes_nothing(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    kafka = parts.kafka = Forgetful()
    parts.log = DurableLog(kafka, parts.spool)

    async def body() -> None:
        await parts.log.start()
        first = asyncio.create_task(parts.append(b"1"))
        await eventually(lambda: len(kafka.asked) == 1)
        kafka.forgotten.clear()
        with SoleRight(tmp_path / "topics" / TOPIC) as sole:
            sole.ask()
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.05)
        second = asyncio.create_task(parts.append(b"2"))
        await eventually(lambda: len(kafka.asked) == 2)
        for _, on_written in kafka.asked:
            on_written([Receipt(TOPIC, 0, 0)])
        assert {type(one) for one in await asyncio.gather(first, second)} == {Receipt}
        assert not kafka.forgotten
        await parts.log.stop()

    _run(parts, body)


@pytest.mark.parametrize("seed", range(6))
def test_however_often_it_is_wanted_each_entity_keeps_its_order(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    parts = Parts(tmp_path)
    kafka = parts.kafka = QueueKafka(chance)
    parts.log, parts.drain = DurableLog(kafka, parts.spool), SpoolDrain(kafka, parts.spool)
    written_meanwhile = 0

    async def want(over: asyncio.Event) -> None:
        nonlocal written_meanwhile
        while not over.is_set():
            with SoleRight(tmp_path / "topics" / TOPIC) as sole:
                sole.ask()
                await eventually(lambda: _take(sole))
                before = len(kafka.values)
                await asyncio.sleep(chance.uniform(0.02, 0.1))
                written_meanwhile += len(kafka.values) - before
            await asyncio.sleep(chance.uniform(0.02, 0.1))

    async def body() -> None:
        await parts.log.start()
        await parts.drain.start()
        over, answers = asyncio.Event(), []
        wants = asyncio.create_task(want(over))
        for number in range(300):
            if not number % 30:
                kafka.fails, kafka.away = chance.choice((0.0, 0.0, 0.3)), chance.random() < 0.1
            entity = b"%d" % chance.randrange(3)
            record = Record(entity, b"%s %d" % (entity, number), [])
            answers.append(asyncio.ensure_future(append_all(parts.log, [(TOPIC, record)])))
            await asyncio.sleep(chance.choice((0, 0, 0.001, 0.004)))
        kafka.fails, kafka.away = 0.0, False
        over.set()
        await wants
        outcomes = [outcome for answer in answers for outcome in await answer]
        assert {type(outcome) for outcome in outcomes} <= {Receipt, Spooled}
        await eventually(parts.spool.is_empty)
        await parts.drain.stop()
        await parts.log.stop()
        assert not written_meanwhile
        first = list(dict.fromkeys(kafka.values))
        assert len(first) == 300
        for entity in (b"0", b"1", b"2"):
            own = [int(value[2:]) for value in first if value.startswith(entity)]
            assert own == sorted(own)

    _run(parts, body)
