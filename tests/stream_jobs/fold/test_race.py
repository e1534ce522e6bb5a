"""Two events of one entity, back to back: the second always sees the first one's effect.

HEADRACE_TEST_PAIRS=10000 makes it long.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from clients.kafka.create_topics import ensure_topics
from local_stack.run.stack import Stack
from shared.settings import JobSettings
from tests.job_process import JobProcess
from tests.kafka_log import eventually, read_topic
from tests.races import DEVICES, FLIGHTS, Race

pytestmark = pytest.mark.stack

PAIRS = int(os.environ.get("HEADRACE_TEST_PAIRS", "3000"))
# small Arrow batches, so that there are rows enough in the shuffle to be spilled
SPILL = """{"spark.shuffle.spill.numElementsForceSpillThreshold": "300",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "16"}"""


@pytest.fixture
def own_kafka_settings(empty_kafka: Stack, tmp_path: Path) -> JobSettings:
    return JobSettings(kafka_bootstrap=empty_kafka.kafka_bootstrap, state_dir=tmp_path / "fold")


def _variants(race: Race, name: str, confs: dict[str, str]) -> list[Any]:
    return [
        pytest.param(race, conf, cut, id=f"{name}-{cut}-{spilled}")
        for spilled, conf in confs.items()
        for cut in ("one batch", "two batches")
    ]


@pytest.mark.parametrize(
    ("race", "spark_conf", "cut"),
    [
        *_variants(DEVICES, "devices", {"in memory": "{}", "spilled": SPILL}),
        *_variants(FLIGHTS, "flights", {"spilled": SPILL}),
    ],
)
def test_back_to_back_events_see_each_other(
    own_kafka_settings: JobSettings,
    spark_environment: dict[str, str],
    tmp_path: Path,
    race: Race,
    spark_conf: str,
    cut: str,
) -> None:
    settings = own_kafka_settings.model_copy(update={"flow": race.flow_reference})
    bootstrap = settings.kafka_bootstrap
    ensure_topics(race.flow, settings)
    firsts = [race.event(number, second=False) for number in range(PAIRS)]
    seconds = [race.event(number, second=True) for number in range(PAIRS)]
    pairs = [event for pair in zip(firsts, seconds, strict=True) for event in pair]
    race.write(bootstrap, firsts if cut == "two batches" else pairs)
    variables = {**spark_environment, "HEADRACE_SPARK_CONF": spark_conf}
    with JobProcess("fold", settings, tmp_path / "fold.log", variables):
        if cut == "two batches":
            eventually(lambda: race.folded(bootstrap) == PAIRS, within_s=300)
            race.write(bootstrap, seconds)
        eventually(lambda: race.folded(bootstrap) >= 2 * PAIRS, within_s=300)
    race.assert_won(bootstrap)
    if cut == "one batch":
        assert len(read_topic(bootstrap, race.state_topic)) == PAIRS


@pytest.mark.parametrize(
    "race",
    [
        pytest.param(DEVICES, id="devices"),
        pytest.param(FLIGHTS, id="flights", marks=pytest.mark.long),
    ],
)
def test_a_fold_that_is_killed_in_the_middle_goes_on_where_it_was(
    own_kafka_settings: JobSettings,
    spark_environment: dict[str, str],
    tmp_path: Path,
    race: Race,
) -> None:
    settings = own_kafka_settings.model_copy(update={"flow": race.flow_reference})
    bootstrap = settings.kafka_bootstrap
    ensure_topics(race.flow, settings)
    # all the first ones before all the second ones: a kill comes between the two of a pair
    for second in (False, True):
        race.write(bootstrap, [race.event(number, second=second) for number in range(PAIRS)])
    variables = {**spark_environment, "HEADRACE_BATCH_RECORDS_MAX": str(PAIRS // 6)}
    with JobProcess("fold", settings, tmp_path / "fold.log", variables) as job:
        eventually(lambda: race.folded(bootstrap) >= PAIRS / 2, within_s=300)
        job.kill()
        assert race.folded(bootstrap) < 2 * PAIRS
        job.start()
        eventually(lambda: race.folded(bootstrap) >= 2 * PAIRS, within_s=300)
    assert "rebuilding" not in (tmp_path / "fold.log").read_text()
    race.assert_won(bootstrap)


def test_states_are_found_whether_a_batch_has_many_of_them_or_few(
    own_kafka_settings: JobSettings, spark_environment: dict[str, str], tmp_path: Path
) -> None:
    settings, log = own_kafka_settings, tmp_path / "fold.log"
    bootstrap, many, few = settings.kafka_bootstrap, 2 * PAIRS, PAIRS // 5
    ensure_topics(DEVICES.flow, settings)
    firsts, seconds = (
        [DEVICES.event(number, second=second) for number in range(many)] for second in (False, True)
    )
    # the last ones bring some that the second ones brought
    steps = [("200000", firsts, many), (str(PAIRS // 20), seconds[:few], many + few),
             ("200000", seconds, 2 * many)]  # fmt: skip
    for batch, events, folded in steps:
        DEVICES.write(bootstrap, events)
        variables = {"HEADRACE_STATE_PARTITIONS": "1", "HEADRACE_BATCH_RECORDS_MAX": batch}
        with JobProcess("fold", settings, log, {**spark_environment, **variables}):
            eventually(lambda: DEVICES.folded(bootstrap) >= folded, within_s=300)  # noqa: B023
            eventually(lambda: list(settings.checkpoints.glob("fold/commits/[0-9]*")) != [])
    assert "rebuilding" not in log.read_text()
    DEVICES.assert_won(bootstrap)
