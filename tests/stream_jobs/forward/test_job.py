"""The job on a real broker, with servers that fail in all ways, and kills in the middle."""

import json
import random
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from confluent_kafka import Producer

from clients.kafka.create_topics import ensure_topics
from desk.hooks.service import HookDesk
from local_stack.run.stack import Stack
from shared.events.envelope import event_headers, event_value
from shared.flow import load_flow
from shared.folding import snapshot
from shared.folding.snapshot import Snapshot
from shared.settings import JobSettings
from shared.topic_names import JOB_STATUS_TOPIC
from stream_jobs.forward.hook_watch import NO_HOOK
from stream_jobs.guards.checkpoint_offsets import ahead_at
from tests.builders import event_record
from tests.job_process import JobProcess
from tests.kafka_log import Record, eventually, last_values, read_topic
from tests.mail_box import MailBox
from tests.stream_jobs.forward.forward_oracle import Arrival, faults
from tests.stream_jobs.forward.hook_maker import hook_desk
from tests.stream_jobs.forward.target_server import (
    QUICK,
    WRONG,
    Answers,
    Received,
    Reply,
    TargetServer,
)

pytestmark = [pytest.mark.stack, pytest.mark.long]

ENTITIES, ROUNDS = 25, 24


class Rig(NamedTuple):
    bootstrap: str
    settings: JobSettings
    variables: dict[str, str]
    folder: Path
    producer: Producer
    mails: MailBox

    def job(self) -> JobProcess:
        return JobProcess("forward", self.settings, self.folder / "log", self.variables)

    def add(self, name: str, url: str, **fields: Any) -> None:
        self.desk.add(name, {"url": url, **QUICK, **fields}, by="test")

    @property
    def desk(self) -> HookDesk:
        return hook_desk(self.settings)

    def write(self, numbers: range) -> None:
        """An event of each entity in each round, and its state after that."""
        for number in numbers:
            for entity in range(ENTITIES):
                name = f"device-{entity:04}"
                record = event_record(
                    number, entity_id=name, id=f"{name}-{number}", value=float(number)
                )
                value, headers = event_value(record), event_headers(record)
                self.producer.produce("event.reading.v1", value, name, headers=headers)
                state = snapshot.encode(Snapshot({"value": number}, number), "f")
                self.producer.produce("state.device.v1", state, name)
        assert self.producer.flush(60) == 0


@pytest.fixture
def rig(empty_kafka: Stack, spark_environment: dict[str, str], tmp_path: Path) -> Iterator[Rig]:
    bootstrap = empty_kafka.kafka_bootstrap
    mails = MailBox()
    sent_by = {"mail_server": mails.url(), "mail_from": "headrace@example.org"}
    settings = JobSettings(kafka_bootstrap=bootstrap, state_dir=tmp_path / "job", **sent_by)
    settings.make_folders()
    ensure_topics(load_flow(), settings)
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    variables = {
        **spark_environment,
        "HEADRACE_HOOKS_HOSTS_ALLOWED": "127.0.0.1",
        **{f"HEADRACE_{name.upper()}": value for name, value in sent_by.items()},
    }
    with mails:
        yield Rig(bootstrap, settings, variables, tmp_path, producer, mails)


def arrivals(target: TargetServer) -> list[Arrival]:
    found = []
    for received, reply in target.received():
        event = received.event
        found.append(Arrival(event["subject"], event["id"], is_done(reply)))
    return found


def is_done(reply: Reply) -> bool:
    return reply.status is not None and 200 <= reply.status < 300


def flaky(seed: int) -> Answers:
    dice = random.Random(seed)

    def answers(_: Received) -> Reply:
        return dice.choice(WRONG) if dice.random() < 0.15 else Reply()

    return answers


def wanted(rounds: range) -> dict[str, list[str]]:
    names = [f"device-{entity:04}" for entity in range(ENTITIES)]
    return {name: [f"{name}-{number}" for number in rounds] for name in names}


def done(target: TargetServer) -> int:
    return len({arrival.event_id for arrival in arrivals(target) if arrival.is_done})


def states(target: TargetServer) -> list[Arrival]:
    """As `arrivals`, but named as the events that they are the states after."""
    found = []
    for received, reply in target.received():
        event = received.event
        entity, version = event["subject"], event["data"]["version"]
        assert (event["type"], event["data"]["state"]) == ("state.device", {"value": version})
        found.append(Arrival(entity, f"{entity}-{version}", is_done(reply)))
    return found


def forget_states(checkpoint: Path) -> None:
    """As one of a version that read none."""
    for file in (checkpoint / "offsets").glob("[0-9]*"):
        *others, told = file.read_text().splitlines()
        offsets = {topic: its for topic, its in json.loads(told).items() if "state." not in topic}
        file.write_text("\n".join([*others, json.dumps(offsets)]))
        (file.parent / f".{file.name}.crc").unlink()


def gates(rig: Rig) -> dict[bytes | None, Record]:
    """What waits, and in which bucket."""
    return {one.key: one for one in read_topic(rig.bootstrap, "gate.forward.v1")}


def delivered(rig: Rig) -> dict[str, set[str]]:
    """By hook, the events that are told as done."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in read_topic(rig.bootstrap, "delivery.v1"):
        told = orjson.loads(one.value or b"")
        if told["verdict"] == "done":
            found[told["hook"]].add(told["event_id"])
    return found


def rests(rig: Rig) -> bool:
    said = last_values(rig.bootstrap, JOB_STATUS_TOPIC).get("forward", {})
    return (said.get("state"), said.get("detail")) == ("running", NO_HOOK)


def test_each_event_arrives_in_the_order_of_its_entity_through_faults_and_kills(rig: Rig) -> None:
    third = ROUNDS // 3
    checkpoint = rig.settings.checkpoints / "forward"
    with (
        TargetServer(flaky(7)) as target,
        TargetServer() as well,
        TargetServer(flaky(8)) as mirror,
        TargetServer(lambda _: Reply(after_s=30)) as hangs,
        rig.job() as job,
    ):
        rig.write(range(1))  # before there is a hook: nobody gets it
        eventually(lambda: rests(rig), within_s=120)
        assert not checkpoint.exists()
        rig.add("flaky", f"{target.url}/in")
        rig.add("well", f"{well.url}/in")
        rig.add("hangs", f"{hangs.url}/in", timeout_s=10)
        rig.add("dead", "http://127.0.0.1:9/in")
        rig.desk.add(
            "mails", {"url": "mailto:ops@example.org", "batch": 100, "per_s": 2}, by="test"
        )
        rig.write(range(1, third))
        eventually(lambda: done(target) > ENTITIES, within_s=120)
        eventually(lambda: any((checkpoint / "commits").glob("[0-9]*")))
        job.kill()
        forget_states(checkpoint)
        rig.add("mirror", f"{mirror.url}/in", of="states", where=["value >= 0"])
        rig.write(range(third, 2 * third))
        job.start()
        eventually(lambda: done(target) > ENTITIES * third, within_s=180)
        begins = ahead_at(checkpoint)["state.device.v1"]
        assert sum(begins.values()) == ENTITIES * third  # what was before the hook is not read
        job.kill()
        shutil.rmtree(checkpoint)
        job.start()
        eventually(lambda: done(well) == ENTITIES * (2 * third - 1), within_s=240)
        rig.write(range(2 * third, 2 * third + 1))  # the job is there again
        eventually(lambda: done(well) == ENTITIES * 2 * third, within_s=120)
        for number in range(2 * third + 1, ROUNDS):
            rig.write(range(number, number + 1))
            time.sleep(0.5)
        # neither one that hangs for 10 s nor one that is not there slows one that is well: if each
        # batch waited for them, this would take several minutes
        eventually(lambda: done(well) == ENTITIES * (ROUNDS - 1), within_s=120)
        rig.desk.delete("hangs", by="test")
        rig.desk.delete("dead", by="test")
        eventually(lambda: done(target) == ENTITIES * (ROUNDS - 1), within_s=240)
        all_states = ENTITIES * (ROUNDS - third)
        eventually(lambda: len({s.event_id for s in states(mirror) if s.is_done}) == all_states)
        eventually(lambda: not any(gate.value for gate in gates(rig).values()))
        assert not faults(wanted(range(1, ROUNDS)), arrivals(target))
        assert not faults(wanted(range(1, ROUNDS)), arrivals(well))
        all_events = {one for ids in wanted(range(1, ROUNDS)).values() for one in ids}
        # a batch that sends has opened no gate yet, and tells of what is done when it is over
        eventually(lambda: set(rig.mails.events()) == all_events)
        assert len(rig.mails.taken) < ENTITIES * ROUNDS / 2  # several make one mail
        assert not faults(wanted(range(third, ROUNDS)), states(mirror))

        def are_told_as_delivered() -> bool:
            told = delivered(rig)
            return told["flaky"] == told["well"] == all_events

        eventually(are_told_as_delivered)
        rig.desk.delete("flaky", by="test")
        rig.desk.delete("well", by="test")
        rig.desk.delete("mails", by="test")
        rig.desk.delete("mirror", by="test")
        eventually(lambda: rests(rig))
        assert not checkpoint.exists()
