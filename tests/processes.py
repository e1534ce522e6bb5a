"""Processes, as /proc tells."""

from shared.machine.process_tree import stat


def is_alive(pid: int) -> bool:
    try:
        return stat(pid)[0] != "Z"
    except OSError:
        return False
