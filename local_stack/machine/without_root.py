"""PostgreSQL refuses to run as root; in a user namespace it sees another user, files stay ours.

Unlike `su` it needs no account and works below a home that only root may enter.
"""

import os
import shutil
import subprocess
import sys

from local_stack.terminal.errors import StackError

OTHER_WAYS = "run as an ordinary user, or set HEADRACE_POSTGRES_URL to a server of yours"


def without_root() -> list[str]:
    """What to put in front of PostgreSQL's commands; a StackError says why nothing would help."""
    if os.geteuid() != 0:
        return []
    if shutil.which("unshare") is None:
        raise StackError(
            "PostgreSQL refuses to run as root, and `unshare` is not on PATH",
            f"install the package util-linux, {OTHER_WAYS}",
        )
    wrapper = ["unshare", "-U"]
    probe = [*wrapper, sys.executable, "-I", "-S", "-c", ""]
    tried = subprocess.run(probe, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        reason = (tried.stderr.strip().splitlines() or [f"exit {tried.returncode}"])[-1]
        raise StackError(
            f"PostgreSQL refuses to run as root, and a user namespace cannot be had: {reason}",
            OTHER_WAYS,
        )
    return wrapper
