import subprocess
from typing import Annotated

import typer

from local_stack.machine.log_files import log_path
from local_stack.machine.log_files import tail as tail_of
from local_stack.run.options import StateDir, folder_of
from local_stack.terminal.errors import StackError
from local_stack.terminal.progress import say


def logs(
    name: Annotated[str, typer.Argument(help="Whose log; without it, which logs there are.")] = "",
    lines: Annotated[int, typer.Option("-n", "--lines", min=1, help="How many of the last.")] = 50,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as it grows.")] = False,
    state_dir: StateDir = None,
) -> None:
    """Show a part's log.

    Example: ./headrace logs spark --follow
    """
    folder = folder_of(state_dir)
    there = sorted(path.stem for path in (folder / "logs").glob("*.log"))
    if not name:
        say(f"logs in {folder / 'logs'}: {', '.join(there) or 'none yet'}")
        return
    if name not in there:
        known = f"logs: {', '.join(there)}" if there else "start the stack with: ./headrace up"
        raise StackError(f"there is no log named {name}", known)
    path = log_path(folder, name)
    if follow:
        subprocess.run(["tail", "-n", str(lines), "-F", str(path)], check=False)
    else:
        say("\n".join(tail_of(path)[-lines:]))
