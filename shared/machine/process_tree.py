"""A process and all below it, as /proc tells."""

from contextlib import suppress
from pathlib import Path


def stat(pid: int) -> list[str]:
    """From its state on."""
    # the name in parentheses may hold spaces
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def tree(pid: int) -> list[int]:
    """It comes first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has just ended
                children.setdefault(int(stat(int(entry.name))[1]), []).append(int(entry.name))
    found, unvisited = [], [pid]
    while unvisited:
        found.append(unvisited.pop())
        unvisited += children.get(found[-1], [])
    return found
