"""CPU and memory of a process and its descendants, read from /proc."""

import os
from contextlib import suppress
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    # the name in parentheses may hold spaces
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def tree(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                children.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
    found, unvisited = [], [pid]
    while unvisited:
        found.append(unvisited.pop())
        unvisited += children.get(found[-1], [])
    return found


def cpu_s(pid: int) -> float:
    """User and system time of the tree, children that have ended included."""
    ticks = 0
    for member in tree(pid):
        with suppress(OSError):
            ticks += sum(map(int, _stat(member)[11:15]))
    return ticks / _TICKS_PER_S


def threads_cpu_s(pid: int) -> dict[tuple[int, int, str], float]:
    """Of the live tree, by process, thread and the thread's name. What a process has used beyond
    its live threads, those that have ended included, stands under thread 0."""
    found: dict[tuple[int, int, str], float] = {}
    for member in tree(pid):
        live_s = 0.0
        with suppress(OSError):
            for task in Path(f"/proc/{member}/task").iterdir():
                with suppress(OSError):
                    head, rest = (task / "stat").read_text().rsplit(")", 1)
                    used_s = sum(map(int, rest.split()[11:13])) / _TICKS_PER_S
                    found[member, int(task.name), head.split("(", 1)[1]] = used_s
                    live_s += used_s
            all_s = sum(map(int, _stat(member)[11:13])) / _TICKS_PER_S
            found[member, 0, "ended"] = max(all_s - live_s, 0.0)
    return found


def resident_mib(pid: int) -> float:
    """Of the live tree, now; what processes share counts once."""
    return _summed_mib(pid, "smaps_rollup", "Pss:")


def rss_mib(pid: int) -> float:
    """Peak resident memory, summed over the live tree."""
    return _summed_mib(pid, "status", "VmHWM:")


def _summed_mib(pid: int, file: str, name: str) -> float:
    kib = 0
    for member in tree(pid):
        with suppress(OSError):
            for line in Path(f"/proc/{member}/{file}").read_text().splitlines():
                if line.startswith(name):
                    kib += int(line.split()[1])
    return round(kib / 1024, 1)
