"""Taking a part of the running stack down and up again, from any process."""

import time
from pathlib import Path

from local_stack.machine.locks import running_launcher
from local_stack.run.stack_file import service_state
from local_stack.terminal.errors import StackError

WAIT_S = 60.0


def hold(state_dir: Path, name: str) -> None:
    """The part ends abruptly and stays down."""
    _must_be_ours(state_dir, name)
    held = state_dir / "held" / name
    held.parent.mkdir(parents=True, exist_ok=True)
    held.touch()
    _wait(state_dir, name, "held")


def release(state_dir: Path, name: str) -> None:
    _must_be_ours(state_dir, name)
    (state_dir / "held" / name).unlink(missing_ok=True)
    _wait(state_dir, name, "running")


def release_all(state_dir: Path) -> None:
    for held in (state_dir / "held").glob("*"):
        held.unlink(missing_ok=True)


def _must_be_ours(state_dir: Path, name: str) -> None:
    if running_launcher(state_dir) is None:
        raise StackError(f"no stack runs on {state_dir}", "start one with: ./headrace up")
    if service_state(state_dir, name) is None:
        raise StackError(f"{name} is not started by this stack", "stop it where you started it")


def _wait(state_dir: Path, name: str, wanted: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while service_state(state_dir, name) != wanted:
        if time.monotonic() > deadline or running_launcher(state_dir) is None:
            raise StackError(f"{name} is still not {wanted}", f"look at: ./headrace logs {name}")
        time.sleep(0.1)
