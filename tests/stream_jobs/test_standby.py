"""Two processes of one job: one works, one waits, warm, and takes over when the other is killed."""

import time
from pathlib import Path

import pytest

from clients.kafka.create_topics import ensure_topics
from local_stack.machine.downloads import fetch_for_object_stores
from local_stack.machine.java import find_java
from local_stack.run.stack import Stack
from shared.settings import JobSettings
from shared.topic_names import JOB_STATUS_TOPIC
from tests.job_process import JobProcess
from tests.kafka_log import eventually, last_values
from tests.object_store import BUCKET, ObjectStore
from tests.races import DEVICES

pytestmark = pytest.mark.stack
PAIRS = 1_000


def test_who_stands_by_takes_over_when_the_other_is_killed_and_nothing_counts_twice(
    empty_kafka: Stack, spark_environment: dict[str, str], tmp_path: Path
) -> None:
    settings = JobSettings(kafka_bootstrap=empty_kafka.kafka_bootstrap, state_dir=tmp_path / "fold")
    bootstrap = settings.kafka_bootstrap
    ensure_topics(DEVICES.flow, settings)
    firsts, seconds = (
        [DEVICES.event(number, second=second) for number in range(PAIRS)]
        for second in (False, True)
    )
    DEVICES.write(bootstrap, firsts)
    variables = {
        **spark_environment,
        "HEADRACE_STANDBY": "true",
        "HEADRACE_BATCH_RECORDS_MAX": str(PAIRS // 5),
    }
    logs = [tmp_path / f"{number}.log" for number in range(2)]
    one, other = (JobProcess("fold", settings, log, variables) for log in logs)
    with other:
        eventually(lambda: DEVICES.folded(bootstrap) == PAIRS, within_s=300)
        one.start()
        eventually(lambda: "stands by: ANOTHER_COPY" in logs[0].read_text(), within_s=300)
        assert "LeaseEndedError" not in logs[0].read_text()  # it has warmed up
        DEVICES.write(bootstrap, seconds)
        other.kill()
        began_s = time.monotonic()
        eventually(lambda: "fold is running" in logs[0].read_text(), within_s=300, every_s=0.05)
        print(f"taken over after {time.monotonic() - began_s:.1f} s")
        eventually(lambda: DEVICES.folded(bootstrap) >= 2 * PAIRS, within_s=300)
        # and the one before is the one that stands by now
        other.start()
        waits = "stands by: ANOTHER_COPY"
        eventually(lambda: waits in logs[1].read_text(), within_s=300)
        one.kill()
        eventually(lambda: logs[1].read_text().count("fold is running") == 2, within_s=300)
    assert "rebuilding" not in logs[0].read_text() + logs[1].read_text()
    DEVICES.assert_won(bootstrap)


@pytest.mark.long
def test_who_stands_by_on_another_machine_takes_over_from_the_object_store(
    empty_kafka: Stack,
    spark_environment: dict[str, str],
    tmp_path: Path,
) -> None:
    """Nothing but Kafka and the store tells it of the other."""
    bootstrap = empty_kafka.kafka_bootstrap
    one, other = (
        JobSettings(kafka_bootstrap=bootstrap, state_dir=tmp_path / name) for name in ("1", "2")
    )
    ensure_topics(DEVICES.flow, one)
    DEVICES.write(bootstrap, [DEVICES.event(number, second=False) for number in range(PAIRS)])
    jars = f"{spark_environment['HEADRACE_SPARK_JARS']}:{fetch_for_object_stores(find_java())}"
    logs = [tmp_path / "1.log", tmp_path / "2.log"]
    with ObjectStore(tmp_path / "store") as store:
        eventually(store.answers, within_s=60)
        variables = {
            **spark_environment,
            **store.access,
            "HEADRACE_SPARK_JARS": jars,
            "HEADRACE_STANDBY": "true",
            "HEADRACE_CHECKPOINT_STORE": f"s3a://{BUCKET}/of/both",
        }
        first, second = (
            JobProcess("fold", settings, log, variables)
            for settings, log in zip((one, other), logs, strict=True)
        )
        with first, second:
            eventually(lambda: DEVICES.folded(bootstrap) == PAIRS, within_s=300)
            # what is not committed yet is folded anew, from what was published
            eventually(lambda: _unread(bootstrap) == 0, within_s=60)
            works, waits = (0, 1) if "fold is running" in logs[0].read_text() else (1, 0)
            eventually(lambda: "stands by: ANOTHER_COPY" in logs[waits].read_text(), within_s=300)
            DEVICES.write(
                bootstrap, [DEVICES.event(number, second=True) for number in range(PAIRS)]
            )
            (first, second)[works].kill()
            began_s = time.monotonic()
            eventually(lambda: "fold is running" in logs[waits].read_text(), within_s=300)
            print(f"taken over after {time.monotonic() - began_s:.1f} s")
            eventually(lambda: DEVICES.folded(bootstrap) >= 2 * PAIRS, within_s=300)
    assert "rebuilding" not in logs[0].read_text() + logs[1].read_text()
    DEVICES.assert_won(bootstrap)


def _unread(bootstrap: str) -> int | None:
    said = last_values(bootstrap, JOB_STATUS_TOPIC).get("fold", {})
    return said.get("lag_records")
