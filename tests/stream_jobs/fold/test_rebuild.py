"""fold without a checkpoint that fits: lost, of other state partitions, of another fold."""

import random
import shutil
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer

from clients.kafka.create_topics import ensure_topics
from local_stack.run.stack import Stack
from shared.events.envelope import EventRecord, Position, event_value, read_event
from shared.flow import load_flow
from shared.folding.applier import Applier
from shared.settings import JobSettings
from tests.builders import event_record
from tests.job_process import JobProcess
from tests.kafka_log import distinct_events, eventually, last_values, read_topic
from tests.oracle import expected_states

pytestmark = pytest.mark.stack

FLOW = load_flow()
DEVICE = FLOW.entities[0]
READINGS = FLOW.event_type("reading").topic
ALARMS = [FLOW.event_type(name).topic for name in DEVICE.emits]
DEVICES = 300


class Load:
    """Readings as enrich would write them, some late and some twice, for as long as it is let."""

    def __init__(self, bootstrap: str) -> None:
        self._dice = random.Random(5)
        self._count = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
            }
        )

    def write(self, count: int) -> None:
        for _ in range(count):
            event = self._next()
            for _ in range(self._dice.choice((1, 1, 1, 2))):
                self._producer.produce(READINGS, event_value(event), event.entity_id)
        assert self._producer.flush(60) == 0

    @contextmanager
    def going_on(self) -> Iterator[None]:
        stop = threading.Event()

        def go_on() -> None:
            while not stop.wait(0.05):
                self.write(20)

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _next(self) -> EventRecord:
        self._count += 1
        late_ms = self._dice.choice((0, 0, 0, 60_000))
        record = event_record(
            self._count,
            entity_id=f"device-{self._dice.randrange(DEVICES):04}",
            value=self._dice.choice((10.0, 30.0, 70.0, 90.0)),
        )
        return record._replace(time_ms=record.time_ms + self._count - late_ms)


def _states(bootstrap: str) -> dict[str, dict[str, Any]]:
    found = last_values(bootstrap, DEVICE.topic)
    return {key: {k: v for k, v in state.items() if k != "_meta"} for key, state in found.items()}


def _expected(bootstrap: str) -> dict[str, dict[str, Any]]:
    return expected_states(distinct_events(bootstrap, READINGS))


def _emissions_of_the_whole_log(bootstrap: str) -> set[str]:
    applier = Applier(DEVICE, 64, {row.name: row for row in FLOW.event_types})
    logs: dict[str, list[EventRecord]] = defaultdict(list)
    for record in read_topic(bootstrap, READINGS):
        place = Position(READINGS, record.partition, record.offset)
        event = read_event(place, record.value or b"")
        logs[event.entity_id].append(event)
    return {
        emitted.id
        for key, log in logs.items()
        for emitted in applier.apply(key, None, sorted(log)).emitted
    }


def _emitted(bootstrap: str) -> set[str]:
    return {
        record.headers["ce_id"].decode()
        for topic in ALARMS
        for record in read_topic(bootstrap, topic)
    }


def test_it_goes_on_from_what_it_has_published_whatever_became_of_the_checkpoint(
    spark_environment: dict[str, str], tmp_path: Path
) -> None:
    log = tmp_path / "fold.log"
    with Stack(tmp_path / "kafka", random_ports=True, services=("kafka",)) as stack:
        bootstrap = stack.kafka_bootstrap
        settings = JobSettings(kafka_bootstrap=bootstrap, state_dir=tmp_path / "job")
        ensure_topics(FLOW, settings)
        load = Load(bootstrap)

        def folded() -> bool:
            return _states(bootstrap) == _expected(bootstrap)

        def emitted() -> bool:
            """After the state that it follows from."""
            return _emitted(bootstrap) == _emissions_of_the_whole_log(bootstrap)

        def run(partitions: int, **changes: str) -> JobProcess:
            more = {"HEADRACE_STATE_PARTITIONS": str(partitions), **changes}
            return JobProcess("fold", settings, log, {**spark_environment, **more})

        def committed() -> list[Path]:
            return list(settings.checkpoints.glob("fold/commits/[0-9]*"))

        load.write(3000)
        with ExitStack() as under_load:
            under_load.enter_context(load.going_on())
            with run(2):
                eventually(lambda: len(committed()) > 3, within_s=240)
            shutil.rmtree(settings.checkpoints / "fold")
            with run(5):
                eventually(lambda: committed() != [], within_s=240)
                under_load.close()
                eventually(folded, within_s=240)
                eventually(emitted)
        assert "CHECKPOINT_LOST: starts with the last of" in log.read_text()
        old = last_values(bootstrap, DEVICE.topic)

        load.write(500)
        expected = {
            key: {**state, "count": 2 * state["count"]}
            for key, state in _expected(bootstrap).items()
        }
        with run(3, HEADRACE_FLOW="tests.changed_flow:FLOW"):
            eventually(lambda: _states(bootstrap) == expected, within_s=240)
            eventually(emitted)
        assert "STATE_PARTITIONS_CHANGED from 5 to 3: starts with" in log.read_text()
        _assert_nobody_saw_it_go_back(bootstrap, old)
        assert read_topic(bootstrap, "dlq.fold.v1") == []


def _assert_nobody_saw_it_go_back(bootstrap: str, old: dict[str, dict[str, Any]]) -> None:
    """The first that another fold shows of a device contains all that was shown before."""
    fold_before = next(iter(old.values()))["_meta"]["fold"]
    for record in read_topic(bootstrap, DEVICE.topic):
        new = orjson.loads(record.value or b"")
        if new["_meta"]["fold"] != fold_before and record.key is not None:
            was = old[record.key.decode()]
            assert new["count"] >= 2 * was["count"]
            assert new["_meta"]["version"] > was["_meta"]["version"]
