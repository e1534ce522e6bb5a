"""Payloads that each wait for a time of their own, and the retry job killed with -9 while they come
due: none is tried too early or late, each entity keeps its order, nothing is left.

python -m tests.faults.timers_run --timers 100000 --kills 20 --lead-s 90 --lasts-s 400
"""

import json
import math
import random
import sys
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import orjson
from confluent_kafka import KafkaException, Producer

from clients.kafka.create_topics import ensure_topics
from clients.kafka.follow import LogFollower
from clients.kafka.offsets import LogOffsets
from local_stack.machine.job_environment import job_environment
from local_stack.run.stack import Stack
from shared.consumer_groups import of_job
from shared.events import envelope
from shared.settings import JobSettings
from stream_jobs.retry.lane_trim import LaneTrim
from stream_jobs.waiting.codec import EVERY_LINE, gate_told, rows_of_wake
from tests.faults.by_hand import by_hand, say
from tests.faults.lane_state import keys_of
from tests.faults.timers_flow import FLOW
from tests.faults.timers_sent import Timer, drawn
from tests.job_process import JobProcess
from tests.kafka_log import eventually

LANE, GATE, WAKE = "retry.enrich.v1", "gate.enrich.v1", "wake.enrich.v1"
INGEST = ("ingest.timer.v1", "ingest.alarm.v1")
EVENTS, PARKED = "event.rang.v1", "dlq.enrich.v1"
LATE_MS = 2_000


class Rang(NamedTuple):
    tried_ms: int
    place: tuple[int, int]


class Timers:
    def __init__(self, folder: Path, bootstrap: str) -> None:
        self._folder = folder
        self._settings = JobSettings(kafka_bootstrap=bootstrap, state_dir=folder)
        ensure_topics(FLOW, self._settings)
        self._followed = {name: self._follower(name) for name in (EVENTS, GATE, WAKE)}
        self.rang: dict[str, Rang] = {}  # the first writing
        self.events = 0
        self.open: set[bytes] = set()
        self.too_early: list[str] = []
        self.ups_ms: list[int] = []
        self.kills_ms: list[int] = []
        self.commits_ms: set[int] = set()

    def _follower(self, topic: str) -> LogFollower:
        follower = LogFollower(self._settings.kafka, "rig", [topic])

        def follows() -> bool:
            with suppress(KafkaException):  # it has just been made: its leaders may be missing
                follower.go_on_from({})
            return bool(follower.next)

        eventually(follows)
        return follower

    def job(self, name: str) -> JobProcess:
        settings = JobSettings(
            kafka_bootstrap=self._settings.kafka_bootstrap,
            state_dir=self._folder / name,
            flow="tests.faults.timers_flow:FLOW",
        )
        return JobProcess(name, settings, self._folder / f"{name}.log", job_environment())

    def send(self, timers: list[Timer]) -> None:
        """All of them to the lane."""
        config = {"bootstrap.servers": self._settings.kafka_bootstrap, "enable.idempotence": True}
        producer = Producer({**config, "partitioner": "murmur2_random", "linger.ms": 20})
        for timer in timers:
            value = json.dumps({"number": timer.number, "due_ms": timer.due_ms}).encode()
            topic = INGEST[0] if timer.in_order else INGEST[1]
            headers = [(envelope.ID, timer.id.encode())]
            producer.poll(0)
            producer.produce(topic, value, timer.entity, headers=headers)
        producer.flush(60)
        with self.job("enrich"):
            before = self.lane_records()
            eventually(lambda: self.lane_records() - before >= len(timers), within_s=300)
            eventually(self._is_told_as_done, within_s=120)

    def _is_told_as_done(self) -> bool:
        """By enrich, as far as there is something to read: retry waits for that."""
        with LogOffsets(self._settings.kafka, of_job("enrich"), INGEST) as log:
            done = log.committed().offsets
            ends = log.ranges()
        return all(done.get(at[0], {}).get(at[1], 0) >= its.end for at, its in ends.items())

    def lane_records(self) -> int:
        with LogOffsets(self._settings.kafka, of_job("retry"), [LANE]) as lane:
            return sum(its.end for its in lane.ranges().values())

    def lane_unread(self) -> int:
        with LogOffsets(self._settings.kafka, of_job("retry"), [LANE]) as lane:
            passed = lane.committed().offsets.get(LANE, {})
            return sum(its.end - passed.get(at[1], 0) for at, its in lane.ranges().items())

    def until_up(self) -> None:
        """The job that has just been started: until it was told to look at all that waits."""
        began_ms = time.time_ns() // 1_000_000

        def up_ms() -> int | None:
            wakes = [
                message.timestamp()[1]
                for message in self._followed[WAKE].to_the_end()
                if EVERY_LINE in rows_of_wake(message.value())
            ]
            return next((at_ms for at_ms in wakes if at_ms >= began_ms), None)

        deadline_s = time.monotonic() + 120
        while (at_ms := up_ms()) is None:
            assert time.monotonic() < deadline_s, "the job did not start"
            if self.ups_ms and self._nothing_waits():  # on a slow machine: then nobody tells it
                at_ms = time.time_ns() // 1_000_000
                break
            time.sleep(0.2)
        self.ups_ms.append(at_ms)

    def _nothing_waits(self) -> bool:
        self.look()
        return not self.open

    def kill(self, job: JobProcess) -> None:
        job.kill()
        self.kills_ms.append(time.time_ns() // 1_000_000)

    def is_between_batches(self) -> bool:
        def newest(log: str) -> int:
            folder = self._folder / "retry" / "checkpoints" / "retry" / log
            return max(
                (int(file.name) for file in folder.iterdir() if file.name.isdigit()), default=-1
            )

        return newest("commits") >= newest("offsets")

    def look(self) -> None:
        commits = self._folder / "retry" / "checkpoints" / "retry" / "commits"
        self.commits_ms |= {
            file.stat().st_mtime_ns // 1_000_000
            for file in commits.iterdir()
            if file.name.isdigit()
        }
        for message in self._followed[EVENTS].to_the_end():
            self.events += 1
            name = dict(message.headers() or [])[envelope.ID].decode()
            if name not in self.rang:
                tried_ms = orjson.loads(message.value() or b"")["data"]["tried_ms"]
                place = message.partition() or 0, message.offset() or 0
                self.rang[name] = Rang(tried_ms, place)
        for message in self._followed[GATE].to_the_end():
            key, told = message.key() or b"", gate_told(message.value())
            if told is None:
                self.open.discard(key)
                continue
            self.open.add(key)
            if told.tries > 1:
                self.too_early.append(key.decode())

    def dead(self) -> list[tuple[int, int]]:
        """From each kill until a job has done its first batch again: before that it starts."""
        commits_ms, spans = sorted(self.commits_ms), []
        ends_ms = [*self.kills_ms[1:], math.inf]  # one that was killed before that was never up
        for kill_ms, up_ms, end_ms in zip(self.kills_ms, self.ups_ms[1:], ends_ms, strict=False):
            at = bisect_left(commits_ms, up_ms)
            up_ms = commits_ms[at] if at < len(commits_ms) else up_ms
            spans.append((kill_ms, int(min(up_ms, end_ms))))
        return spans

    def late_ms(self, timers: list[Timer]) -> dict[str, int]:
        """From when it was due, and all before it in its order were, to when it was tried, without
        the time in which no job was up."""
        dead = self.dead()
        due: defaultdict[str, int] = defaultdict(int)
        late = {}
        for timer in timers:
            whose = timer.entity if timer.in_order else timer.id
            due[whose] = max(due[whose], timer.due_ms)
            if rang := self.rang.get(timer.id):
                passed = due[whose], rang.tried_ms
                late[timer.id] = passed[1] - passed[0] - overlap_ms(dead, *passed)
        return late

    def violations(self, timers: list[Timer], late_max_ms: int) -> Iterator[str]:
        lasts: dict[str, tuple[int, int]] = {}
        for timer in timers:
            rang = self.rang.get(timer.id)
            if rang is None:
                yield f"lost: {timer}"
                continue
            if rang.tried_ms < timer.due_ms:
                yield f"before its time: {timer}"
            if timer.in_order:
                if rang.place < lasts.get(timer.entity, (0, 0)):
                    yield f"not in its order: {timer}"
                lasts[timer.entity] = rang.place
        for name, late_ms in self.late_ms(timers).items():
            if late_ms > late_max_ms:
                yield f"{late_ms} ms late: {name}"
        yield from (f"tried before its time: {name}" for name in self.too_early)
        yield from (f"its gate is open: {name!r}" for name in self.open)
        parked = self._follower(PARKED).to_the_end()
        yield from (f"parked: {message.key()!r}" for message in parked)
        kept = keys_of(self._folder / "retry" / "checkpoints" / "retry", job_environment())
        yield from (f"{count} keys are left in {name}" for name, count in kept.items() if count)
        LaneTrim(self._settings, kept_ms=0).trim()
        with LogOffsets(self._settings.kafka, of_job("retry"), [LANE]) as lane:
            left = sum(its.end - its.start for its in lane.ranges().values())
        if left:
            yield f"{left} records are left in the lane"


def run(
    folder: Path,
    timers: int,
    kills: int,
    seed: int,
    lead_s: float,
    lasts_s: float,
    up_to_s: float,
    late_max_ms: int = LATE_MS,
) -> int:
    chance = random.Random(seed)
    with Stack(folder / "servers", random_ports=True, services=("kafka",)) as stack:
        rig = Timers(folder, stack.kafka_bootstrap)
        begins_ms = time.time_ns() // 1_000_000 + int(lead_s * 1000)
        its = drawn(timers, begins_ms, int(lasts_s * 1000), chance)
        rig.send(its)
        with rig.job("retry") as job:
            rig.until_up()
            eventually(lambda: rig.lane_unread() == 0, within_s=300)
            spare_s = begins_ms / 1000 - time.time()
            say(f"all wait, {spare_s:.0f} s before the first is due")
            time.sleep(max(0.0, spare_s))
            for number in range(1, kills + 1):
                time.sleep(chance.uniform(0.5, up_to_s))
                rig.kill(job)
                rig.look()
                say(f"kill {number}: {len(rig.rang)} have been done, {len(rig.open)} lines wait")
                job.start()
                rig.until_up()
            eventually(lambda: rig.look() or not rig.open, within_s=300, every_s=1)
            eventually(rig.is_between_batches)  # what has closed the last gate is in the state
            time.sleep(3)  # it is idle, and says so
            rig.kill(job)
        rig.look()
        late = rig.late_ms(its)
        found = list(rig.violations(its, late_max_ms))
    kinds = Counter(one.partition(":")[0].lstrip("0123456789 ") for one in found)
    print(*(f"{number} x {kind}" for kind, number in kinds.items()), *found[:20], sep="\n")
    dead = rig.dead()
    met = {t.id for t in its if overlap_ms(dead, t.due_ms - LATE_MS, t.due_ms + LATE_MS)}
    up = 1 - overlap_ms(dead, begins_ms, begins_ms + int(lasts_s * 1000)) / (lasts_s * 1000)
    warm = [end - up_ms for (_, end), up_ms in zip(dead, rig.ups_ms[1:], strict=False)]
    print(
        f"seed {seed}: {timers} timers due within {lasts_s:.0f} s, {kills} kills, up {up:.0%} of "
        f"that; dead in ms: {quantiles([end - begin for begin, end in dead])}, of which from the "
        f"first wake to the first commit: {quantiles(warm)}; {rig.events - len(rig.rang)} events "
        f"doubled in the log; late in ms: {quantiles(late.values())}; of {len(met)} due in that "
        f"time or less than 2 s from it: {quantiles([late[name] for name in met & late.keys()])}; "
        f"of the others: {quantiles([late[name] for name in late.keys() - met])}; "
        f"{len(rig.open)} gates open, {len(found)} violations"
    )
    return 1 if found else 0


def overlap_ms(spans: Iterable[tuple[int, int]], begin_ms: int, end_ms: int) -> int:
    return sum(max(0, min(end_ms, end) - max(begin_ms, begin)) for begin, end in spans)


def quantiles(late: Iterable[int]) -> str:
    ordered = sorted(late)
    if not ordered:
        return "none"
    at = {name: ordered[int(share * (len(ordered) - 1))] for name, share in _SHARES.items()}
    return ", ".join(f"{name} {ms}" for name, ms in at.items())


_SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


def main() -> int:
    return by_hand(
        __doc__,
        run,
        {
            "timers": (5_000, None),
            "kills": (2, None),
            "lead_s": (60.0, "until the first one is due"),
            "lasts_s": (60.0, "until the last one is"),
            "up_to_s": (14.0, "so long the job may live"),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
