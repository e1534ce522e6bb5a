"""A process that fills and drains a spool is killed again and again: what it had told safe is
there, once or more, in its order."""

import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from gateway.spool.spool import Spool

pytestmark = pytest.mark.slow

TOPICS = ("ingest.telemetry.v1", "ingest.status.v1")
MIB = 1024 * 1024
PROCESS = """
    import os, random, sys, threading
    from pathlib import Path
    from gateway.spool import spool_log
    from gateway.kafka_writer.outcome import Record
    from gateway.spool.spool import Spool
    from gateway.spool.frame import Frame

    folder, seed, first = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    spool_log._SEGMENT_BYTES = 5_000
    spool_log._READ_BYTES = 1_000
    chance = random.Random(seed)
    topics = ("ingest.telemetry.v1", "ingest.status.v1")
    spool = Spool(folder / "spool", 1 << 30, topics)

    def drain(log):
        with (folder / f"kafka-{log.topic}").open("a") as kafka:
            while True:
                if log.is_empty():
                    continue
                frames, end = log.read()
                for frame in frames:
                    kafka.write(f"{frame.record.value[:8].decode()}\\n")
                kafka.flush()
                if frames:
                    log.drained(len(frames), end, frames[-1].spooled_ms)

    # the one is stuck: nothing of it is drained before the end
    threading.Thread(target=drain, args=(spool.of(topics[0]),), daemon=True).start()
    number = first
    while True:
        topic = chance.choice(topics)
        count = chance.randint(1, 9)
        values = [b"%08d" % (number + n) + bytes(chance.randint(0, 900)) for n in range(count)]
        frames = [Frame(topic, Record(b"device", value, []), 1) for value in values]
        assert spool.of(topic).append(frames) == count
        number += count
        print(topic, number - count, count, flush=True)
"""


@pytest.mark.parametrize("seed", range(2))
def test_what_was_told_safe_survives_a_kill_at_any_moment(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    told: dict[str, list[int]] = {topic: [] for topic in TOPICS}
    first = 0
    for _ in range(8):
        arguments = [str(tmp_path), str(chance.randrange(1000)), str(first)]
        command = [sys.executable, "-c", textwrap.dedent(PROCESS), *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline()]
            time.sleep(chance.uniform(0, 0.2))
            process.kill()
            lines += process.stdout.read().splitlines(keepends=True)
        for line in lines:
            if not line.endswith("\n"):
                continue  # it was killed while it told
            topic, begin, count = line.split()
            told[topic] += range(int(begin), int(begin) + int(count))
        first += 100_000  # what was under way at the kill has numbers that nobody was told

    spool = Spool(tmp_path / "spool", MIB, TOPICS)
    for topic in TOPICS:
        log, kafka = spool.of(topic), tmp_path / f"kafka-{topic}"
        found = list(map(int, kafka.read_text().splitlines())) if kafka.exists() else []
        while not log.is_empty():
            frames, end = log.read()
            found += [int(frame.record.value[:8]) for frame in frames]
            log.drained(len(frames), end, 1)
        in_order = list(dict.fromkeys(found))
        assert in_order == sorted(in_order)
        assert set(told[topic]) <= set(in_order), f"told {len(told[topic])}"
        assert told[topic]
    kinds = {path.name.partition("-")[0] for path in (tmp_path / "spool" / "set-aside").iterdir()}
    assert kinds <= {"torn"}
    spool.close()
