"""enrich does the same whether a batch is all that it does or it stays at its topics."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.run.stack import Stack
from shared.events import envelope
from shared.settings import JobSettings
from stream_jobs.guards.checkpoint_offsets import ahead_at
from tests.job_process import JobProcess
from tests.kafka_log import eventually
from tests.stream_jobs.kafka_io.enrich_topics import (
    INGEST,
    KNOWN,
    LANE,
    LETTERS,
    UNKNOWN,
    Topics,
)

pytestmark = pytest.mark.stack

WAVES = 4


@pytest.fixture
def settings(empty_kafka: Stack, tmp_path: Path) -> JobSettings:
    return JobSettings(kafka_bootstrap=empty_kafka.kafka_bootstrap, state_dir=tmp_path / "enrich")


@pytest.fixture
def topics(settings: JobSettings) -> Iterator[Topics]:
    yield Topics(settings)


def _commits(settings: JobSettings) -> int:
    commits = settings.checkpoints / "enrich" / "commits"
    return sum(path.name.isdecimal() for path in commits.glob("*"))


def _noted(settings: JobSettings) -> int:
    """How many payloads it has noted as done, though no batch of Spark's has ended."""
    done = ahead_at(settings.checkpoints / "enrich").get(INGEST, {})
    return sum(done.values())


@pytest.mark.parametrize("stays_s", ["0", "600"], ids=["batches", "stays"])
def test_what_comes_becomes_the_same_either_way(
    settings: JobSettings,
    topics: Topics,
    tmp_path: Path,
    spark_environment: dict[str, str],
    stays_s: str,
) -> None:
    variables = {**spark_environment, "HEADRACE_STAYS_S": stays_s}
    with JobProcess("enrich", settings, tmp_path / "enrich.log", variables):
        for number in range(WAVES):
            topics.wave(number)
            eventually(lambda waves=number + 1: topics.has_all_of(waves), within_s=240)
        # a batch that lasts is no reason to say less of what is done
        eventually(lambda: topics.said().get("lag_records") == 0)
        if stays_s == "0":  # what it says may be of the wave before, and a commit follows its batch
            eventually(lambda: _commits(settings) >= WAVES)
        else:
            assert _commits(settings) == 0
    assert topics.events() == {device: list(range(WAVES)) for device in KNOWN}
    waiting = defaultdict(list)
    for record in topics.read(LANE):
        of = (record.key or b"").decode()
        waiting[of].append((record.value, record.headers[envelope.REASON]))
    its = [
        (b'{"value": %d}' % wave, b"behind" if wave else b"missing_device") for wave in range(WAVES)
    ]
    assert waiting == dict.fromkeys(UNKNOWN, its)
    parked = {record.key: record.value for record in topics.read(LETTERS)}
    assert parked == {KNOWN[wave].encode(): b"not %d" % wave for wave in range(WAVES)}


def test_one_that_is_killed_while_it_stays_goes_on_where_it_was(
    settings: JobSettings, topics: Topics, tmp_path: Path, spark_environment: dict[str, str]
) -> None:
    variables = {**spark_environment, "HEADRACE_STAYS_S": "600"}
    job = JobProcess("enrich", settings, tmp_path / "enrich.log", variables)
    with job:
        for number in (0, 1):
            topics.wave(number)
            eventually(lambda waves=number + 1: topics.has_all_of(waves), within_s=240)
        # what it says of its lag may be of the wave before
        eventually(lambda: _noted(settings) == 2 * (len(KNOWN) + len(UNKNOWN) + 1))
        eventually(lambda: topics.said().get("lag_records") == 0)
        job.kill()
        topics.wave(2)
        job.start()
        eventually(lambda: topics.has_all_of(3), within_s=240)
        topics.wave(3)
        eventually(lambda: topics.has_all_of(4), within_s=240)
    # nothing of what it had noted as done was done again, though no batch of Spark's had ended; of
    # what came just then its worker may have done something before it noticed
    for done in topics.events().values():
        assert list(dict.fromkeys(done)) == list(range(WAVES))
        assert done[:2] == [0, 1]
        assert done[-1] == 3
    assert set(topics.events()) == set(KNOWN)
    in_lane = Counter((record.key, record.value) for record in topics.read(LANE))
    assert len(in_lane) == WAVES * len(UNKNOWN)
    assert {value for (_, value), count in in_lane.items() if count > 1} <= {b'{"value": 2}'}
