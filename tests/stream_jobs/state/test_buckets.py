"""Each partition of the state has as many buckets."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from stream_jobs.state.buckets import bucket_of, buckets_of, partition_of

_AS_SPARK_DOES = """
import json
from shared.settings import JobSettings
from stream_jobs.supervision.session import open_session
spark = open_session(JobSettings(), "hash")
of = [f"pmod(hash(cast(id AS int)), {n}) AS of_{n}" for n in (2, 3, 5)]
print(json.dumps([list(row) for row in spark.range(200).selectExpr(*of).collect()]))
"""


@pytest.mark.parametrize("partitions", [1, 2, 3, 5, 32])
def test_all_partitions_have_as_many(partitions: int) -> None:
    buckets = buckets_of(partitions, 8)
    assert len(set(buckets)) == len(buckets)
    found = Counter(partition_of(bucket, partitions) for bucket in buckets)
    assert found == dict.fromkeys(range(partitions), 8)


def test_an_entity_stays_in_its_bucket_and_all_are_used() -> None:
    buckets = buckets_of(2, 8)
    keys = [f"device-{number}".encode() for number in range(2000)]
    its = [bucket_of(key, buckets) for key in keys]
    assert its == [bucket_of(key, buckets) for key in keys]
    assert set(its) == set(buckets)
    assert bucket_of(None, buckets) == bucket_of(b"", buckets)


@pytest.mark.stack
def test_spark_puts_a_bucket_where_it_is_said_to(
    spark_environment: dict[str, str], tmp_path: Path
) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _AS_SPARK_DOES],
        env={**os.environ, **spark_environment, "HEADRACE_STATE_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=180,
    )
    told = json.loads(run.stdout.splitlines()[-1])
    assert told == [[partition_of(bucket, n) for n in (2, 3, 5)] for bucket in range(200)]
