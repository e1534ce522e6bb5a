"""A job whose workers hang: when it is found out, without Spark; then on a real one."""

import os
import signal
from pathlib import Path

import pytest

from clients.kafka.create_topics import ensure_topics
from local_stack.run.stack import Stack
from shared.settings import JobSettings
from stream_jobs.guards.lease import Lease, check_lease
from stream_jobs.guards.standstill import Standstill
from tests.end_to_end.launcher import descendants, parents_of_all
from tests.job_process import JobProcess
from tests.kafka_log import eventually, read_topic
from tests.races import DEVICES
from tests.stream_jobs.guards.test_single_copy import Clock


@pytest.fixture
def settings(tmp_path: Path) -> JobSettings:
    return JobSettings(state_dir=tmp_path, stands_still_after_s=60)


def test_it_stands_still_when_neither_spark_nor_a_worker_has_shown_a_sign(
    settings: JobSettings,
) -> None:
    clock = Clock()
    standstill = Standstill("fold", settings, clock)
    lease = Lease(settings.checkpoints, "fold")
    assert standstill.why("a batch") == ""
    clock.now_s += 50
    assert standstill.why("another batch") == ""
    clock.now_s += 50
    lease.extend(asked_s=1e9)
    check_lease("fold")
    assert standstill.why("another batch") == ""
    clock.now_s += 60
    assert standstill.why("another batch") == ""
    clock.now_s += 1
    assert standstill.why("another batch").startswith("it stood still for 60 s")
    assert standstill.why("another batch") == ""  # what begins has as much time


@pytest.mark.parametrize(
    "own", [{"stands_still_after_s": 0}, {"spark_master": "spark://127.0.0.1:7077"}]
)
def test_where_no_sign_is_to_be_seen_nothing_stands_still(
    settings: JobSettings, own: dict[str, object]
) -> None:
    clock = Clock()
    standstill = Standstill("fold", settings.model_copy(update=own), clock)
    standstill.why("a batch")
    clock.now_s += 10_000
    assert standstill.why("a batch") == ""


@pytest.mark.stack
def test_a_job_whose_workers_hang_begins_its_batch_again_and_shows_where_they_stood(
    empty_kafka: Stack, tmp_path: Path, spark_environment: dict[str, str]
) -> None:
    bootstrap, log = empty_kafka.kafka_bootstrap, tmp_path / "fold.log"
    settings = JobSettings(kafka_bootstrap=bootstrap, state_dir=tmp_path / "fold")
    ensure_topics(DEVICES.flow, settings)
    events = [DEVICES.event(number, second=False) for number in range(600)]
    soon = {
        **spark_environment,
        "HEADRACE_STANDS_STILL_AFTER_S": "15",
        # so that there is one worker: each that hangs holds up a batch of its own
        "HEADRACE_SPARK_MASTER": "local[1]",
        "HEADRACE_STATE_PARTITIONS": "1",
    }

    def are_folded(count: int) -> None:
        eventually(lambda: len(read_topic(bootstrap, DEVICES.state_topic)) == count, within_s=240)

    with JobProcess("fold", settings, log, soon) as job:
        DEVICES.write(bootstrap, events[:300])
        are_folded(300)
        assert job.pid is not None
        for worker in _workers_below(job.pid):
            os.kill(worker, signal.SIGSTOP)
        DEVICES.write(bootstrap, events[300:])
        are_folded(600)
    said = log.read_text()
    assert "fold is restarting: it stood still for 15 s" in said
    assert "Full thread dump OpenJDK" in said
    assert "in manager" in said  # of the daemon, whose own trace is there as well


def _workers_below(driver: int) -> list[int]:
    """Those that Spark's daemon of Python workers has forked."""
    module = "\0-m\0stream_jobs.supervision.worker_daemon\0"
    of_daemon = [pid for pid, said in descendants(driver).items() if module in said]
    parents = parents_of_all()
    return [pid for pid in of_daemon if parents.get(pid) in of_daemon]
