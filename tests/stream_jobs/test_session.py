import os
import subprocess
import sys
from pathlib import Path

import pytest

# as Spark waits for a file that never comes, or comes
_OPENS = """
import subprocess, sys, time
from pyspark.core import context
from shared.settings import JobSettings
from stream_jobs import session

session._STILL_S = 0.5
seconds, jvm = float(sys.argv[1]), sys.argv[2]

def launch(*_):
    subprocess.Popen([sys.executable, "-c", jvm])
    time.sleep(seconds)
    sys.exit("it is up")

context.launch_gateway = launch
session.open_session(JobSettings(), "starts")
"""
_WAITS, _WORKS = "import time; time.sleep(20)", "while True: pass"


@pytest.mark.parametrize(
    ("seconds", "jvm", "told"),
    [(20, _WAITS, b"has done nothing for 0.5 s"), (3, _WORKS, b"it is up")],
)
def test_a_jvm_that_has_stopped_on_its_way_up_ends_the_process(
    tmp_path: Path, seconds: float, jvm: str, told: bytes
) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", _OPENS, str(seconds), jvm],
        env={**os.environ, "HEADRACE_STATE_DIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        process_group=0,
    )
    try:
        assert run.stderr is not None
        said = b""
        while told not in said:
            line = run.stderr.readline()
            assert line, said
            said += line
        assert run.wait(20) == 1
    finally:
        os.killpg(run.pid, 9)
        run.stderr.close()
        run.wait()
