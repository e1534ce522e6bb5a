"""What retry's state keeps, read from its checkpoint while the job does not run.

python -m tests.faults.lane_state CHECKPOINT
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path


def keys_of(checkpoint: Path, environment: Mapping[str, str]) -> dict[str, int]:
    """By kind. By a process of its own: Spark may run in this one."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, "-m", "tests.faults.lane_state", str(checkpoint)],
            env={**os.environ, **environment, "HEADRACE_STATE_DIR": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


def main(checkpoint: str) -> int:
    from shared.settings import JobSettings
    from stream_jobs.supervision.session import open_session

    spark = open_session(JobSettings(), "lane-state")
    _ = spark.streams  # without it the reader of states finds no coordinator of theirs
    kept = spark.read.format("statestore").options(path=checkpoint, stateVarName="kept").load()
    found = {row.kind: row["count"] for row in kept.groupBy("user_map_key.kind").count().collect()}
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
