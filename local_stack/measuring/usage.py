"""CPU, memory and disk that processes use, read from /proc and from the file system."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from shared.machine.process_tree import stat

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def command(pid: int) -> str:
    with suppress(OSError):
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    return ""


def cpu_of(pids: Iterable[int]) -> float:
    """User and system time in seconds, children that have ended included."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):
            ticks += sum(map(int, stat(pid)[11:15]))
    return ticks / _TICKS_PER_S


def memory_of(pids: Iterable[int]) -> float:
    """MiB that are resident now; what processes share counts once."""
    kib = 0
    for pid in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    kib += int(line.split()[1])
    return kib / 1024


def bytes_in(files: Iterable[Path]) -> int:
    total = 0
    for file in files:
        with suppress(OSError):
            total += file.stat().st_size
    return total
