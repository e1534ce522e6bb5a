"""CPU by thread, and peak memory, of a process and its descendants, read from /proc."""

import os
from contextlib import suppress
from pathlib import Path

from local_stack.measuring.usage import cpu_of, memory_of
from shared.machine.process_tree import stat, tree

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """User and system time of the tree, children that have ended included."""
    return cpu_of(tree(pid))


def resident_mib(pid: int) -> float:
    """Of the live tree, now; what processes share counts once."""
    return round(memory_of(tree(pid)), 1)


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
            all_s = sum(map(int, stat(member)[11:13])) / _TICKS_PER_S
            found[member, 0, "ended"] = max(all_s - live_s, 0.0)
    return found


def rss_mib(pid: int) -> float:
    """Peak resident memory, summed over the live tree."""
    kib = 0
    for member in tree(pid):
        with suppress(OSError):
            for line in Path(f"/proc/{member}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    kib += int(line.split()[1])
    return round(kib / 1024, 1)
