"""Ingest topics that are given more partitions while gateways write to them, or between that."""

import asyncio
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from gateway.kafka_writer.kafka_log import KafkaLog
from gateway.kafka_writer.known_partitions import KnownPartitions
from gateway.kafka_writer.outcome import Outcome, Receipt, Record
from local_stack.run.stack import Stack
from shared.settings import GatewaySettings
from tests.gateway.support import until

TOPIC = "ingest.widened.v1"


def test_the_number_is_kept_as_it_was_first_seen(tmp_path: Path) -> None:
    assert KnownPartitions(tmp_path, {}).to_use(TOPIC, 4) == 4
    again = KnownPartitions(tmp_path, {})
    assert again.widened({TOPIC: 4}) == []
    assert again.to_use(TOPIC, 8) == 4
    (said,) = again.widened({TOPIC: 8, "another.v1": 8})
    assert said.startswith(f"TOPIC_WIDENED: {TOPIC} had 4 partitions and has 8 now; the gateway")


def test_a_topic_made_anew_with_fewer_is_written_to_all_the_same(tmp_path: Path) -> None:
    known = KnownPartitions(tmp_path, {})
    assert [known.to_use(TOPIC, count) for count in (8, 4, 8)] == [8, 4, 4]


def test_what_the_operator_accepts_is_the_number_from_the_next_start_on(tmp_path: Path) -> None:
    KnownPartitions(tmp_path, {}).to_use(TOPIC, 4)
    accepting = KnownPartitions(tmp_path, {TOPIC: 8})
    (said,) = accepting.widened({TOPIC: 8})
    assert said == f"{TOPIC} has 8 partitions: restart the gateway, it still writes to 4"
    assert accepting.to_use(TOPIC, 8) == 8
    assert accepting.widened({TOPIC: 8}) == []
    assert KnownPartitions(tmp_path, {}).to_use(TOPIC, 8) == 8


def test_a_disk_that_cannot_remember_it_keeps_nobody_from_writing(tmp_path: Path) -> None:
    (tmp_path / "partitions").write_text("in the way")
    assert KnownPartitions(tmp_path, {}).to_use(TOPIC, 4) == 4


@pytest.mark.stack
def test_entities_stay_on_their_partitions_whatever_is_added_also_after_a_restart(
    broker: Stack, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.kafka_bootstrap})
    admin.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result(60)
    settings = GatewaySettings(kafka_bootstrap=broker.kafka_bootstrap, state_dir=tmp_path)
    keys = [f"device-{number}".encode() for number in range(40)]
    before = asyncio.run(_places(settings, keys))
    assert set(before.values()) == {0, 1, 2, 3}
    admin.create_partitions([NewPartitions(TOPIC, 8)])[TOPIC].result(60)
    until(lambda: len(admin.list_topics(timeout=10).topics[TOPIC].partitions) == 8, 20)
    assert asyncio.run(_places(settings, keys)) == before
    accepted = settings.model_copy(update={"widened_topics": {TOPIC: 8}})
    assert len(set(asyncio.run(_places(accepted, keys)).values())) > 4


async def _places(settings: GatewaySettings, keys: list[bytes]) -> dict[bytes, int]:
    log = KafkaLog(settings, [TOPIC])
    await log.start()
    places: dict[bytes, int] = {}
    try:
        for key in keys:
            place = None
            while place is None:
                place = await _put(log, key)
            places[key] = place
    finally:
        await log.stop()
    return places


async def _put(log: KafkaLog, key: bytes) -> int | None:
    told: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
    log.put(TOPIC, [Record(key, b"{}", [])], told.set_result)
    (outcome,) = await told
    if isinstance(outcome, Receipt):
        return outcome.partition
    await asyncio.sleep(0.1)  # its leader may not be known yet
    return None
