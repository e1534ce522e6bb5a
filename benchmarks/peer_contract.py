"""The environment contract of a comparison with other gateways and pipelines (README.md).

Each part sets up what the local stack would have set up, then becomes the process itself: whoever
measures the command measures the gateway or the jobs, and its SIGTERM reaches them.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import orjson

from clients.kafka.create_topics import ensure_topics
from clients.kafka.write import AckedWriter
from clients.postgres.outbox import OutboxRow
from local_stack.machine.job_environment import job_environment
from shared.flow import load_flow
from shared.settings import Settings
from shared.topic_names import RELAY_HEARTBEAT_KEY, master_topic

_BATCH_ROWS = 5_000


def gateway() -> NoReturn:
    _configure(
        KAFKA_BOOTSTRAP=_given("BOOTSTRAP"),
        GATEWAY_PORT=_given("PORT"),
        STATE_DIR=str(Path("headrace").absolute()),
    )
    _ensure_topics()
    _become("gateway")


def pipeline() -> NoReturn:
    """GUARANTEE needs no reading: the fold counts each event once, whichever is asked for."""
    threads = _given("THREADS")
    _configure(
        KAFKA_BOOTSTRAP=_given("BOOTSTRAP"),
        STATE_DIR=_given("WORKDIR"),
        PARTITIONS=_given("PARTITIONS"),
        SPARK_MASTER=f"local[{int(threads) + 1}]",  # one more, for a task that waits for payloads
        STATE_PARTITIONS=threads,
        TRIGGER_MS=_given("COMMIT_MS"),  # a micro-batch ends with its commit
    )
    os.environ.update(job_environment())
    settings = _ensure_topics()
    lines = Path(_given("AREAS")).read_text().splitlines()
    publish_areas(settings, [line.split(",", 1) for line in lines])
    _become("stream_jobs", "enrich", "fold")


def _given(name: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        sys.exit(f"{name} is not set: the bench that starts this command sets it (README.md)")


def _configure(**settings: str) -> None:
    os.environ["HEADRACE_FLOW"] = "benchmarks.peer_flow:FLOW"
    os.environ.update({f"HEADRACE_{name}": value for name, value in settings.items()})


def _ensure_topics() -> Settings:
    settings = Settings()
    ensure_topics(load_flow(settings.flow), settings)
    return settings


def publish_areas(settings: Settings, areas: Iterable[Sequence[str]]) -> None:
    """As the relay would: rows by their key, then the word that they are all there."""
    topic = master_topic("device")
    rows = [
        OutboxRow(seq, topic, device.encode(), orjson.dumps({"area": area}), [])
        for seq, (device, area) in enumerate(areas)
    ]
    beat = orjson.dumps({"as_of_ms": time.time_ns() // 1_000_000})
    rows.append(OutboxRow(len(rows), topic, RELAY_HEARTBEAT_KEY.encode(), beat, []))
    producer = AckedWriter(settings.kafka)
    for start in range(0, len(rows), _BATCH_ROWS):
        refusals = producer.send(rows[start : start + _BATCH_ROWS], lambda: True)
        if refusals:
            sys.exit(f"{topic} refused {len(refusals)} rows, as {next(iter(refusals.values()))!r}")


def _become(*module_and_arguments: str) -> NoReturn:
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", *module_and_arguments])


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # held back until here
    {"gateway": gateway, "pipeline": pipeline}[sys.argv[1]]()
