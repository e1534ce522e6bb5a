"""A relay that stands still in a call of a library is ended, with what it stood in."""

import subprocess
import sys

import pytest

_SCRIPT = """
import threading, time
from shared.settings import JobSettings
from stream_jobs import relay

def stands_still(self):
    time.sleep(60)

settings = JobSettings()
relay._STILL_S = 1 - 3 * settings.slow_after_s
relay.Relay.work = stands_still
relay.run(settings, threading.Event())
"""


@pytest.mark.slow
def test_a_relay_that_stands_still_ends_and_says_where() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert "in stands_still" in done.stderr
