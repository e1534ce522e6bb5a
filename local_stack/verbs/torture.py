import os
import sys

import typer

from local_stack.machine.downloads import fetch_downloads
from local_stack.machine.java import find_java
from local_stack.machine.paths import CHECKOUT, python_path
from local_stack.terminal.errors import StackError


def torture(context: typer.Context) -> None:
    """Stacks of their own, hurt under load by faults that a seed chooses, and judged; a developer's
    verb.

    --seed N or --seeds 1-20, --events N, --faults N; --resume FILE keeps the results and goes on
    from there; --list shows the kinds of fault, --only WORD and --without WORD choose among them.

    Example: ./headrace torture --seed 7 --events 20000 --faults 12
    """
    rig = CHECKOUT / "tests" / "faults" / "whole"
    if not rig.exists():
        raise StackError(
            f"the fault rig is not there: {rig}", "it is a part of the tests: run it in a checkout"
        )
    fetch_downloads(find_java())
    command = [sys.executable, "-P", "-m", "tests.faults.whole", *context.args]
    # in place of this process: Ctrl-C then goes to the rig alone, which ends its stack
    os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": python_path()})
