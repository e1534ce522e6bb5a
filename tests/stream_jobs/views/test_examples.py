"""The views of the examples on weeks of a log, in disorder, late and repeated, while their process
is killed, a checkpoint is lost, and the number of state partitions changes: held against plain
Python. `HEADRACE_TEST_EVENTS=200000` sends as many events to each."""

import os
import random
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from clients.kafka.create_topics import ensure_topics
from local_stack.run.stack import Stack
from shared.flow import load_flow
from shared.settings import JobSettings
from shared.timestamps import now_ms
from tests.kafka_log import eventually
from tests.stream_jobs.views.oracle import Rows
from tests.stream_jobs.views.test_job import Rig, is_same

pytestmark = [pytest.mark.stack, pytest.mark.long]

EXAMPLES = Path(__file__).parents[3] / "examples"
EVENTS = int(os.environ.get("HEADRACE_TEST_EVENTS", "12000"))
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


class Seen(NamedTuple):
    id: str
    entity_id: str
    time_ms: int
    data: dict[str, Any]

    @property
    def tenant(self) -> str | None:
        return self.entity_id.partition("/")[0] if "/" in self.entity_id else None


Log = dict[str, list[tuple[int, Seen]]]  # by event type: when it was appended, and the event


class Example(NamedTuple):
    module: str
    span_ms: int  # of the log's time, which ended so long ago that every window has closed
    ended_ms: int
    event: Callable[[random.Random, int], tuple[str, str, dict[str, Any]]]


def counted(log: Log, late_after_ms: int) -> dict[str, list[Seen]]:
    """By event type: each once, if a copy of it was not late."""
    found: dict[str, dict[str, Seen]] = defaultdict(dict)
    for kind, records in log.items():
        for at_ms, event in records:
            if at_ms - event.time_ms <= late_after_ms:
                found[kind].setdefault(event.id, event)
    return defaultdict(list, {kind: [*its.values()] for kind, its in found.items()})


# the sample's readings


def reading(dice: random.Random, number: int) -> tuple[str, str, dict[str, Any]]:
    device = f"{'acme/' if number % 3 == 0 else ''}device-{dice.randrange(30):02}"
    what = dice.random()
    if what < 0.05:
        return "alarm_raised", device, {"value": 91.0, "threshold": 90.0, "area": "north"}
    if what < 0.15:
        return "status_changed", device, {"status": dice.choice(("on", "off", "standby"))}
    value = round(dice.random() * 100, 3)
    area = dice.choice(("north", "south"))
    more = {"unit": None, "model": "m", "attributes": {}, "rest": {}}
    return "reading", device, {"value": value, "area": area, **more}


def by_minute(events: dict[str, list[Seen]]) -> Rows:
    groups: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for event in events["reading"]:
        start = event.time_ms // MINUTE_MS * MINUTE_MS
        groups[event.data["area"], start, start + MINUTE_MS].append(event.data["value"])
    return {
        key: {"readings": len(its), "mean": sum(its) / len(its), "highest": max(its)}
        for key, its in groups.items()
    }


def online(events: dict[str, list[Seen]]) -> Rows:
    rows: Rows = {}
    by_device: dict[str, list[Seen]] = defaultdict(list)
    for event in sorted(events["reading"], key=lambda its: its.time_ms):
        by_device[event.entity_id].append(event)
    for device, its in by_device.items():
        run: list[Seen] = []
        for event in [*its, None]:
            if run and (event is None or event.time_ms > run[-1].time_ms + 5 * MINUTE_MS):
                begin, end = run[0].time_ms, run[-1].time_ms
                rows[run[0].tenant, device, begin, end + 5 * MINUTE_MS] = {
                    "readings": len(run),
                    "seconds": (end - begin) / 1000,
                    "highest": max(one.data["value"] for one in run),
                }
                run = []
            if event is not None:
                run.append(event)
    return rows


def by_device(events: dict[str, list[Seen]]) -> Rows:
    rows: Rows = {}
    for event in sorted(events["reading"], key=lambda its: (its.time_ms, its.id)):
        row = rows.setdefault((event.tenant, event.entity_id), {"readings": 0, "highest": -1.0})
        row["readings"] += 1
        row["highest"] = max(row["highest"], event.data["value"])
        row["latest"] = event.data["value"]
    return rows


def alarm_with_status(events: dict[str, list[Seen]]) -> Rows:
    rows: Rows = {}
    for alarm in events["alarm_raised"]:
        before = [
            (one.time_ms, one.id, one.data["status"])
            for one in events["status_changed"]
            if one.entity_id == alarm.entity_id and 0 <= alarm.time_ms - one.time_ms <= HOUR_MS
        ]
        key = alarm.tenant, alarm.id, alarm.time_ms, alarm.entity_id
        rows[key] = {"last_status": max(before)[2] if before else None}
    return rows


# orders


def order(dice: random.Random, number: int) -> tuple[str, str, dict[str, Any]]:
    # an order is paid some time after it was opened, if at all
    one = f"{'acme/' if number % 3 == 0 else ''}order-{max(0, number - dice.randrange(200)):06}"
    if dice.random() < 0.5:
        return "opened", one, {"customer": f"customer-{dice.randrange(20)}"}
    return "paid", one, {"amount": dice.randrange(100_000)}


def opened_by_day(events: dict[str, list[Seen]]) -> Rows:
    rows: Rows = {}
    for event in events["opened"]:
        start = event.time_ms // DAY_MS * DAY_MS
        key = event.tenant, event.data["customer"], start, start + DAY_MS
        rows.setdefault(key, {"orders": 0})["orders"] += 1
    return rows


def paid_by_day(events: dict[str, list[Seen]]) -> Rows:
    rows: Rows = {}
    opened: dict[str, list[Seen]] = defaultdict(list)
    for event in events["opened"]:
        opened[event.entity_id].append(event)
    for paid in events["paid"]:
        for its in opened[paid.entity_id]:
            if 0 <= paid.time_ms - its.time_ms <= 7 * DAY_MS:
                start = paid.time_ms // DAY_MS * DAY_MS
                key = its.tenant, its.data["customer"], start, start + DAY_MS
                row = rows.setdefault(key, {"orders": 0, "cents": 0})
                row["orders"] += 1
                row["cents"] += paid.data["amount"]
    return rows


OF_VIEW: dict[str, Callable[[dict[str, list[Seen]]], Rows]] = {
    function.__name__: function
    for function in (
        *(by_minute, online, by_device, alarm_with_status),
        *(opened_by_day, paid_by_day),
    )
}


EXAMPLE = {
    "readings": Example("insights", 2 * DAY_MS, 4 * HOUR_MS, reading),
    "orders": Example("order_views", 20 * DAY_MS, 10 * DAY_MS, order),
}


def events_in_disorder(example: Example) -> Iterator[tuple[int, str, Seen]]:
    """When each was appended, and of which type it is: some late, some by a clock that is ahead."""
    dice = random.Random(11)
    begin_ms = now_ms() - example.ended_ms - example.span_ms
    sent: list[tuple[str, Seen]] = []
    for number in range(EVENTS):
        at_ms = begin_ms + example.span_ms * number // EVENTS
        if sent and dice.random() < 0.1:  # it comes again
            yield (at_ms, *dice.choice(sent[-3_000:]))
            continue
        kind, entity_id, data = example.event(dice, number)
        back_ms = dice.choice((0, 0, 20_000, 20 * MINUTE_MS, 3 * HOUR_MS, -HOUR_MS))
        time_ms = at_ms - int(max(0, back_ms * dice.random()))
        sent.append((kind, Seen(f"e-{number}", entity_id, time_ms, data)))
        yield (at_ms, *sent[-1])


def as_record(kind: str, event: Seen) -> bytes:
    return orjson.dumps(
        {
            "id": event.id,
            "type": kind,
            "entity_id": event.entity_id,
            "time_ms": event.time_ms,
            "arrived_ms": event.time_ms,
            "origin": ["ingest.telemetry.v1", 0, int(event.id[2:])],
            "data": event.data,
        }
    )


@pytest.fixture
def example(request: pytest.FixtureRequest) -> Example:
    return EXAMPLE[request.param]


@pytest.fixture
def rig(
    request: pytest.FixtureRequest,
    example: Example,
    empty_kafka: Stack,
    spark_environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Rig:
    folder = str(EXAMPLES / request.node.callspec.params["example"])
    monkeypatch.syspath_prepend(folder)
    name = f"{example.module}:FLOW"
    variables = {
        **spark_environment,
        "PYTHONPATH": os.pathsep.join((folder, str(EXAMPLES.parent))),
        "HEADRACE_BATCH_RECORDS_MAX": str(EVENTS // 8),
    }
    bootstrap = empty_kafka.kafka_bootstrap
    settings = JobSettings(kafka_bootstrap=bootstrap, state_dir=tmp_path / "job", flow=name)
    settings.make_folders()
    flow = load_flow(name)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    times = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}
    topics = dict.fromkeys(row.topic for row in flow.event_types)
    for made in admin.create_topics([NewTopic(one, 4, config=times) for one in topics]).values():
        made.result(30)
    ensure_topics(flow, settings)
    return Rig(bootstrap, settings, variables, tmp_path, flow.views)


def write_log(rig: Rig, example: Example) -> Log:
    """At times of its own, as if weeks had gone by."""
    flow = load_flow(rig.settings.flow)
    topics = {row.name: row.topic for row in flow.event_types}
    producer = Producer({"bootstrap.servers": rig.bootstrap, "partitioner": "murmur2_random"})
    log: Log = defaultdict(list)
    for at_ms, kind, event in events_in_disorder(example):
        record = as_record(kind, event)
        producer.produce(topics[kind], record, event.entity_id, timestamp=at_ms)
        producer.poll(0)
        log[kind].append((at_ms, event))
    assert producer.flush(60) == 0
    return log


@pytest.mark.parametrize("example", [*EXAMPLE], indirect=True)
def test_the_views_of_an_example_say_what_its_log_says(rig: Rig, example: Example) -> None:
    log = write_log(rig, example)
    topics = [row.topic for row in rig.rows_of_flow]
    with rig.views() as process:
        eventually(lambda: any(rig.read_to(topic) for topic in topics))
        process.kill()
        shutil.rmtree(rig.settings.checkpoints / rig.rows_of_flow[0].job)
        process.start()
        eventually(lambda: all(rig.read_to(topic) for topic in topics))
    with rig.views(HEADRACE_STATE_PARTITIONS="3"):
        for row in rig.rows_of_flow:
            wanted = OF_VIEW[row.name](counted(log, round(row.late_after_s * 1000)))
            assert len(wanted) > 20
            eventually(lambda row=row, wanted=wanted: says(rig, row.name, wanted), 600, 2)


def says(rig: Rig, name: str, wanted: Rows) -> bool:
    found = rig.rows(name)
    return found.keys() == wanted.keys() and all(
        is_same(found[key], its) for key, its in wanted.items()
    )
