"""When retry is woken, on a real broker."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from clients.kafka.create_topics import ensure_topics
from clients.kafka.follow import LogFollower
from clients.kafka.offsets import LogOffsets
from local_stack.run.stack import Stack
from shared.consumer_groups import of_job
from shared.flow import FLOW
from shared.flow_table import Flow
from shared.model import Table
from shared.settings import JobSettings
from stream_jobs.retry import job as retry
from stream_jobs.retry.job import BUCKETS
from stream_jobs.retry.waker import Waker
from stream_jobs.waiting.codec import as_of, gate_value
from stream_jobs.waiting.line import Told
from tests.kafka_log import eventually, read_topic

pytestmark = pytest.mark.stack

MASTER, GATE = "master.device.v1", "gate.enrich.v1"
WAITS = gate_value(Told(1, 1, "ingest.telemetry.v1/0/5", "missing_device", "device-7", {"0": 0}))


@pytest.fixture
def settings(empty_kafka: Stack, tmp_path: Path) -> JobSettings:
    settings = JobSettings(kafka_bootstrap=empty_kafka.kafka_bootstrap, state_dir=tmp_path)
    ensure_topics(FLOW, settings)
    places = LogOffsets(settings.kafka, of_job("retry"), [topic.name for topic in FLOW.topics()])
    eventually(lambda: _have_leaders(places))
    return settings


def _have_leaders(places: LogOffsets) -> bool:
    with suppress(KafkaException):
        return bool(places.ranges())
    return False


def _write(settings: JobSettings, topic: str, key: str, value: bytes | None = b"{}") -> None:
    producer = Producer({**settings.kafka.for_librdkafka(), "acks": "all"})
    producer.produce(topic, value, key)
    assert producer.flush(60) == 0


def _wakes(settings: JobSettings) -> list[list[str]]:
    records = read_topic(settings.kafka_bootstrap, "wake.enrich.v1")
    return [orjson.loads(record.value) for record in records]


def _waker(settings: JobSettings, flow: Flow = FLOW) -> Waker:
    """Of a query that starts, and has said of its first batch that nothing is due."""
    waker = Waker(settings, flow)
    waker.start()
    waker.step()
    waker.hear({"looks": BUCKETS, "look_ms": None, "woken": 0, "parked": 0})
    return waker


def test_a_row_wakes_while_something_waits_also_one_that_came_while_nobody_looked(
    settings: JobSettings,
) -> None:
    waker = _waker(settings)
    assert _wakes(settings) == [[]]
    _write(settings, MASTER, "device-1")
    waker.step()
    assert _wakes(settings) == [[]]
    _write(settings, GATE, "device-7", WAITS)
    _write(settings, MASTER, "_relay")
    waker.step()
    assert _wakes(settings) == [[]]
    _write(settings, MASTER, "device-2")
    _write(settings, MASTER, "device-3")
    waker.step()
    assert sorted(_wakes(settings)[-1]) == ["device/device-2", "device/device-3"]
    _write(settings, MASTER, "device-7")
    another = _waker(settings)
    assert {"device/device-7", "*"} <= set(_wakes(settings)[-1])
    _write(settings, GATE, "device-7", None)
    _write(settings, MASTER, "device-8")
    known = _wakes(settings)
    another.step()
    assert _wakes(settings) == known


def test_a_row_that_counts_from_a_time_on_wakes_who_waits_for_its_key(
    settings: JobSettings,
) -> None:
    rate = Table("rate", key="zone", valid_from="from_ms")
    telemetry = replace(FLOW.endpoints[0], master=("device", "rate"))
    flow = replace(FLOW, endpoints=(telemetry, FLOW.endpoints[1]), tables=(rate,))
    ensure_topics(flow, settings)
    waker = _waker(settings, flow)
    _write(settings, GATE, "device-7", WAITS)
    _write(settings, rate.topic, "north@1798761600000")
    _write(settings, MASTER, "device@8")
    waker.step()
    assert sorted(_wakes(settings)[-1]) == ["device/device@8", "rate/north"]


def test_it_is_woken_when_a_look_is_due_and_not_before(settings: JobSettings) -> None:
    waker = _waker(settings)
    waker.step()
    assert _wakes(settings) == [[]]
    later_ms = time.time_ns() // 1_000_000 + 3_600_000
    waker.hear({"looks": BUCKETS, "look_ms": later_ms, "woken": 2, "parked": 0})
    waker.step()
    assert _wakes(settings) == [[]]
    # of one bucket alone: what the others have told still holds
    waker.hear({"looks": 1, "look_ms": 0, "woken": 1, "parked": None})
    waker.hear({"looks": 1, "look_ms": None, "woken": 0, "parked": 0})
    waker.step()
    waker.step()
    assert _wakes(settings) == [[], []]
    assert waker.numbers()["lanes"]["retry.enrich.v1"]["woken"] == 3


def test_a_wake_says_up_to_when_master_data_is_complete(settings: JobSettings) -> None:
    waker = _waker(settings)
    _write(settings, GATE, "device-7", WAITS)
    now_ms = time.time_ns() // 1_000_000
    _write(settings, MASTER, "_relay", orjson.dumps({"as_of_ms": now_ms}))
    _write(settings, MASTER, "device-2")
    waker.step()
    assert _wakes(settings)[-1] == ["device/device-2"]  # of the other table nothing is known yet
    for table in FLOW.master_tables:
        told = {"as_of_ms": now_ms + (table == "device")}
        _write(settings, f"master.{table}.v1", "_relay", orjson.dumps(told))
    _write(settings, MASTER, "device-3")
    waker.step()
    assert _wakes(settings)[-1] == ["device/device-3", f"@{now_ms}"]
    assert as_of(_wakes(settings)[-1]) == now_ms


def test_what_is_due_is_woken_where_master_data_cannot_be_read(
    settings: JobSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    waker = _waker(settings)

    def away(_within_s: float) -> Iterator[Message]:
        raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        yield

    monkeypatch.setattr(waker._master, "to_the_end", away)
    waker.hear({"looks": BUCKETS, "look_ms": 0, "woken": 0, "parked": 0})
    with pytest.raises(KafkaException):
        waker.step()
    assert _wakes(settings) == [[], []]


def test_a_log_that_was_made_anew_is_read_from_its_beginning(settings: JobSettings) -> None:
    for number in range(3):
        _write(settings, MASTER, f"device-{number}")
    follower = LogFollower(settings.kafka, "test", [MASTER])
    follower.go_on_from({(MASTER, number): 1_000 for number in range(settings.partitions)})
    assert len(list(follower.to_the_end())) == 3


def test_many_rows_wake_in_parts(settings: JobSettings) -> None:
    waker = _waker(settings)
    _write(settings, GATE, "device-7", WAITS)
    producer = Producer(settings.kafka.for_librdkafka())
    for number in range(2_500):
        producer.produce(MASTER, b"{}", f"device-{number}")
    assert producer.flush(60) == 0
    for _ in range(5):
        waker.step()
    _, *wakes = _wakes(settings)
    assert max(map(len, wakes)) == 1_000
    assert len({row for wake in wakes for row in wake}) == 2_500


def test_retry_goes_on_from_a_checkpoint_that_fits_and_else_from_what_waits(
    settings: JobSettings,
) -> None:
    _write(settings, GATE, "device-7", WAITS)
    checkpoint = settings.checkpoints / "retry"
    with_its_lane = retry.start(settings)
    assert with_its_lane
    assert not any(with_its_lane["retry.enrich.v1"].values())
    commits = checkpoint / "commits"
    commits.mkdir(parents=True)
    (commits / "0").touch()
    assert retry.start(settings) is None
    more_partitions = settings.model_copy(update={"state_partitions": 5})
    assert retry.start(more_partitions) == with_its_lane
    assert not checkpoint.exists()
    commits.mkdir(parents=True)
    (commits / "0").touch()
    assert retry.start(more_partitions) is None
    checkpoint.with_name("retry.made-for.json").unlink()  # earlier versions wrote none
    assert retry.start(more_partitions) == with_its_lane
