import os
import subprocess
import sys
from pathlib import Path

_AS_THE_DISK_IS_FULL = """
import time
from pyspark.core import context
from shared.settings import JobSettings
from stream_jobs import session

session._START_WITHIN_S = 0.5
context.launch_gateway = lambda *_: time.sleep(60)  # its way to wait for a file that never comes
session.open_session(JobSettings(), "hangs")
"""


def test_a_jvm_that_does_not_come_up_ends_the_process(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _AS_THE_DISK_IS_FULL],
        env={**os.environ, "HEADRACE_STATE_DIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        timeout=50,
        check=False,
    )
    assert run.returncode == 1
    assert b"has not come up within 0.5 s" in run.stderr
