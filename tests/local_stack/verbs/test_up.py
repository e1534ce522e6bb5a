"""What can go wrong before `up` has begun."""

import signal
import subprocess
import sys

import pytest

from local_stack.machine.paths import CHECKOUT

pytestmark = pytest.mark.slow

SWALLOWED = """
import signal, sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == "local_stack.run.stack":
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                print("swallowed", flush=True)
            sys.exit("it goes on")

from local_stack.verbs.up import up
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, CtrlC())
up()
"""


def test_ctrl_c_ends_the_imports_whoever_would_swallow_its_exception() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SWALLOWED], cwd=CHECKOUT, capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")
