"""`./headrace up`: runs the stack in front of you until Ctrl-C, `stop` or the terminal's end."""

import os
import signal
import time
from pathlib import Path
from types import FrameType

from local_stack.machine.class_archives import make_beside
from local_stack.machine.preflight import preflight
from local_stack.machine.settings_check import check_settings, unknown_settings
from local_stack.run.ready_block import ready_block
from local_stack.run.stack import Stack
from local_stack.terminal.progress import say


def run_in_foreground(
    state_dir: Path, *, random_ports: bool, workers: int = 0, gateways: int = 1
) -> None:
    began = time.monotonic()
    check_settings()
    stack = Stack(state_dir, random_ports=random_ports, workers=workers, gateways=gateways)
    stack.reserve()
    _stop_on_signals(stack)
    try:
        say("Headrace starts on this machine:")
        preflight(stack.state_dir, say)
        for unknown in unknown_settings():
            say(f"  setting  {unknown}")
        with stack:
            say(ready_block(stack, time.monotonic() - began))
            make_beside()
            while not stack.is_to_stop:
                signal.pause()
    except KeyboardInterrupt:
        pass
    except Exception as error:
        if not stack.is_to_stop:
            raise
        say(f"  while it stopped: {error}")  # or foreign code has made it of the signal
    say("Headrace has stopped; its data stays in " + str(stack.state_dir))


def _stop_on_signals(stack: Stack) -> None:
    """The first signal stops all in order, the second one at once."""

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if stack.is_to_stop:
            stack.kill()
            say("Headrace was stopped at once.")
            os._exit(130)
        stack.is_to_stop = True  # the exception may get lost in foreign code
        say("\nStopping; once more stops at once.")
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_signal)
    signal.signal(signal.SIGTERM, on_signal)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup leaves it
        signal.signal(signal.SIGHUP, on_signal)
