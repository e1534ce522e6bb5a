import os
import signal
import time

from local_stack.machine.locks import running_launcher
from local_stack.run.options import StateDir, folder_of
from local_stack.terminal.errors import StackError
from local_stack.terminal.progress import say

WAIT_S = 60.0


def stop(state_dir: StateDir = None) -> None:
    """Stop the running stack; its data stays.

    Example: ./headrace stop
    """
    folder = folder_of(state_dir)
    launcher = running_launcher(folder)
    if launcher is None:
        say(f"No stack runs on {folder}.")
        return
    os.kill(launcher, signal.SIGTERM)
    deadline = time.monotonic() + WAIT_S
    while running_launcher(folder) is not None:
        if time.monotonic() > deadline:
            raise StackError(f"the launcher (pid {launcher}) does not end", f"kill -9 {launcher}")
        time.sleep(0.1)
    say("Stopped.")
