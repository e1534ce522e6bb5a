"""Views on a real broker, of events in disorder, late, repeated and corrected, while their process
is killed, its checkpoints are lost, and the number of its state partitions changes."""

import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import orjson
import pytest
from confluent_kafka import Producer

from clients.kafka.create_topics import ensure_topics
from gateway.views.selection import as_text, selection_of
from local_stack.run.stack import Stack
from shared.flow import load_flow
from shared.model import View
from shared.settings import JobSettings
from shared.timestamps import from_rfc3339, now_ms
from tests.job_process import JobProcess
from tests.kafka_log import eventually, last_values, read_topic
from tests.stream_jobs.views.oracle import OF_JOIN, OF_VIEW, Rows, events_of, late_in

pytestmark = pytest.mark.stack

FLOWS = "tests.stream_jobs.views_flow"
READINGS, CHANGES = "event.reading.v1", "event.status_changed.v1"
# of an event that is none: each of these is parked by persist
ODD: tuple[dict[str, Any], ...] = (
    {"type": "other"},
    {"time_ms": (1 << 63) - 1},
    {"time_ms": None},
    {"arrived_ms": -(1 << 63)},
    {"data": None},
    {"shape": 2},
)


class Rig(NamedTuple):
    bootstrap: str
    settings: JobSettings
    variables: dict[str, str]
    folder: Path
    rows_of_flow: tuple[View, ...]

    def views(self, **more: str) -> JobProcess:
        return JobProcess("views", self.settings, self.folder / "log", {**self.variables, **more})

    def rows(self, name: str) -> Rows:
        """As whoever keeps the higher version has them; of each the key is in the value, too."""
        (row,) = (one for one in self.rows_of_flow if one.name == name)
        kept: dict[bytes, dict[str, Any]] = {}
        by_version: dict[tuple[bytes, int], dict[str, Any]] = {}
        for record in read_topic(self.bootstrap, row.topic):
            told = orjson.loads(record.value or b"")
            its_key = orjson.loads(record.key or b"")
            assert {name: told[name] for name in its_key} == its_key
            first = {row.key[0]: as_text(its_key[row.key[0]])}
            asked = selection_of(row, first).ranges(row)
            assert any(begin < (record.key or b"") < end for begin, end in asked)
            at = record.key or b"", told["_meta"]["version"]
            assert is_same(by_version.setdefault(at, told), told)
            known = kept.get(record.key or b"")
            if known is None or told["_meta"]["version"] >= known["_meta"]["version"]:
                kept[record.key or b""] = told
        return dict(_told(row.key, value) for value in kept.values())

    def holds(self, name: str) -> bool:
        readings = events_of(read_topic(self.bootstrap, READINGS))
        if name in OF_VIEW:
            wanted = OF_VIEW[name](readings)
        else:
            changes = events_of(read_topic(self.bootstrap, CHANGES), "status_changed")
            wanted = OF_JOIN[name](readings, changes)
        found = self.rows(name)
        return found.keys() == wanted.keys() and all(
            is_same(found[key], wanted[key]) for key in wanted
        )

    def goes_on(self) -> None:
        """Every view, with what came after this moment."""
        since_ms = now_ms()
        topics = [row.topic for row in self.rows_of_flow]
        eventually(lambda: all(self.read_to(topic) > since_ms for topic in topics), 600, 1)

    def read_to(self, topic: str) -> int:
        values = (record.value or b"" for record in read_topic(self.bootstrap, topic))
        return max((orjson.loads(value)["_meta"]["version"] for value in values), default=0)

    def said(self, name: str) -> dict[str, Any]:
        found = last_values(self.bootstrap, "job.status.v1").get(f"view_{name}", {})
        return found.get("view", {})


def is_same(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """What was added up in another order may differ in the last digit."""
    return found.keys() == wanted.keys() and all(
        found[name] == (pytest.approx(its, rel=1e-9) if isinstance(its, float) else its)
        for name, its in wanted.items()
    )


def _told(key: tuple[str, ...], value: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    fields = {name: its for name, its in value.items() if name != "_meta" and name not in key}
    window = fields.pop("window", None)
    bounds = [from_rfc3339(window[end]) for end in ("start", "end")] if window else []
    if "time" in fields:
        fields["time"] = from_rfc3339(fields["time"])
    parts = (from_rfc3339(value[name]) if name == "time" else value[name] for name in key)
    return (*parts, *bounds), fields


@pytest.fixture
def rig(
    request: pytest.FixtureRequest,
    empty_kafka: Stack,
    spark_environment: dict[str, str],
    tmp_path: Path,
) -> Rig:
    name = f"{FLOWS}:{request.param}"
    bootstrap = empty_kafka.kafka_bootstrap
    settings = JobSettings(kafka_bootstrap=bootstrap, state_dir=tmp_path / "job", flow=name)
    settings.make_folders()
    ensure_topics(flow := load_flow(name), settings)
    return Rig(bootstrap, settings, spark_environment, tmp_path, flow.views)


@contextmanager
def fed(rig: Rig, a_second: int) -> Iterator[Callable[[], None]]:
    """Until it is over, or what is yielded is called."""
    stop = threading.Event()
    feeder = threading.Thread(target=feed, args=(rig.bootstrap, stop, a_second))
    feeder.start()

    def end() -> None:
        stop.set()
        feeder.join()

    try:
        yield end
    finally:
        end()


def feed(bootstrap: str, stop: threading.Event, a_second: int = 200) -> None:
    dice = random.Random(7)
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    sent: list[tuple[str, dict[str, Any]]] = []
    while not stop.is_set():
        for _ in range(a_second // 5):
            key, event = _event(dice)
            sent.append((key, event))
            if dice.random() < 0.2:
                device, change = _change(dice)
                for _ in range(dice.choice((1, 1, 1, 2))):
                    producer.produce(CHANGES, orjson.dumps(change), device)
            what = dice.random()
            if what < 0.05:  # it comes again, at once or much later
                producer.produce(READINGS, orjson.dumps(event), key)
            elif what < 0.15:
                again_key, again = dice.choice(sent[-5_000:])
                if dice.random() < 0.5:  # posted again, so it arrived again
                    again = {**again, "arrived_ms": time.time_ns() // 1_000_000}
                producer.produce(READINGS, orjson.dumps(again), again_key)
            elif what < 0.17:
                corrected = {**event, "revision": 1, "data": {**event["data"], "value": 1000.0}}
                producer.produce(READINGS, orjson.dumps(corrected), key)
            elif what < 0.19:
                odd = (
                    *(b"", b"[1", b'"text"', b"{}"),
                    *(orjson.dumps({**event, "id": "odd", **one}) for one in ODD),
                )
                producer.produce(READINGS, dice.choice(odd), key)
            elif what < 0.20:
                producer.produce(READINGS, orjson.dumps({**event, "id": "odd"}), "someone-else")
            producer.produce(READINGS, orjson.dumps(event), key)
        producer.poll(0)
        stop.wait(0.2)
    assert producer.flush(60) == 0


def _event(dice: random.Random) -> tuple[str, dict[str, Any]]:
    now_ms = time.time_ns() // 1_000_000
    key = f"{'acme/' if dice.random() < 0.3 else ''}device-{dice.randrange(40):04}"
    # most a little late, some much, and some by a clock that is ahead
    delay_ms = int(dice.choice((0, 200, 200, 4_000, 12_000, 45_000, -30_000)) * dice.random())
    event = {
        "id": str(uuid4()),
        "type": "reading",
        "entity_id": key,
        "time_ms": now_ms - delay_ms,
        "arrived_ms": now_ms - dice.randrange(150),
        "origin": ["ingest.telemetry.v1", 0, dice.randrange(1 << 40)],
        "data": {
            "value": round(dice.random() * 100, 3),
            "unit": None,
            "area": f"area-{dice.randrange(5)}",
            "model": "m",
            "attributes": {"floor": 3},
            "rest": {},
        },
    }
    return key, event


def _change(dice: random.Random) -> tuple[str, dict[str, Any]]:
    key, event = _event(dice)
    status = dice.choice(("on", "off", "standby"))
    return key, {**event, "type": "status_changed", "data": {"status": status}}


@pytest.mark.parametrize("rig", ["FLOW"], indirect=True)
def test_views_say_what_the_log_says_whatever_ends_in_between(rig: Rig) -> None:
    with fed(rig, a_second=200) as end:
        with rig.views() as process:
            rig.goes_on()
            process.kill()
            for name in ("by_area", "sessions"):
                shutil.rmtree(rig.settings.checkpoints / f"view_{name}")
            process.start()
            rig.goes_on()
            time.sleep(3)
        with rig.views(HEADRACE_STATE_PARTITIONS="3"):
            rig.goes_on()
            end()
            for row in rig.rows_of_flow:
                eventually(lambda name=row.name: rig.holds(name), 600, 3)
            late = late_in(read_topic(rig.bootstrap, READINGS))
            assert late > 100
            # the counts are those since its process began, which has read all of it anew
            eventually(lambda: rig.said("totals").get("late") == late, 60)
            said = rig.said("totals")
            assert (said["corrections"] > 10, said["stragglers"]) == (True, 0)


@pytest.mark.parametrize("rig", ["FLOW_OF_JOINS"], indirect=True)
def test_joins_say_what_both_logs_say_whatever_ends_in_between(rig: Rig) -> None:
    with fed(rig, a_second=100) as end, rig.views() as process:
        rig.goes_on()
        process.kill()
        shutil.rmtree(rig.settings.checkpoints / "view_last_status")
        process.start()
        rig.goes_on()
        end()
        for row in rig.rows_of_flow:
            eventually(lambda name=row.name: rig.holds(name), 600, 3)
            assert len(rig.rows(row.name)) > 100
