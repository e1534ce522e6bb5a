import os
import shutil
from typing import Annotated

import typer

from local_stack.machine.locks import running_launcher
from local_stack.run.options import StateDir, folder_of
from local_stack.terminal.errors import StackError
from local_stack.terminal.progress import say


def reset(
    yes: Annotated[bool, typer.Option("--yes", help="Needed: all data goes.")] = False,
    state_dir: StateDir = None,
) -> None:
    """Remove all topics, rows and state.

    Example: ./headrace reset --yes
    """
    folder = folder_of(state_dir)
    if running_launcher(folder) is not None:
        raise StackError(f"a stack runs on {folder}", "stop it first: ./headrace stop")
    if not folder.exists():
        say(f"There is nothing in {folder}.")
        return
    if not (folder / "launcher.pid").exists():
        raise StackError(f"{folder} is no state folder of Headrace", "remove it yourself")
    if not yes:
        raise StackError(f"this removes all data in {folder}", "if you mean it, add --yes")
    shutil.rmtree(folder)
    say(f"Removed {folder}.")
    if stored := os.environ.get("HEADRACE_CHECKPOINT_STORE"):
        say(f"The checkpoints in {stored} are still there: remove them, too, or choose another.")
