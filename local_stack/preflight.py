"""What the machine must have, one line each; a failure names its fix."""

import os
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from local_stack.errors import StackError
from local_stack.java import find_java
from local_stack.without_root import without_root

DISK_NEEDED_GB = 2.0
MEMORY_NEEDED_GB = 2.0


def preflight(state_dir: Path, report: Callable[[str], None]) -> None:
    _line(report, "Python", platform.python_version(), sys.executable)
    _need_linux_tools()
    if not os.environ.get("HEADRACE_POSTGRES_URL"):
        without_root()
    java = find_java()
    _line(report, "Java", java.version, str(java.home))
    state_dir.mkdir(parents=True, exist_ok=True)
    disk = shutil.disk_usage(state_dir).free / 1e9
    _need(disk, DISK_NEEDED_GB, "disk", f"free some at {state_dir}, or set HEADRACE_STATE_DIR")
    _line(report, "disk", f"{disk:.0f} GB free", str(state_dir))
    memory = available_memory_gb()
    _need(memory, MEMORY_NEEDED_GB, "memory", "close other programs, or run on a larger machine")
    _line(report, "memory", f"{memory:.1f} GB available", "Kafka 0.5 GB, Spark about 1 GB")


def available_memory_gb() -> float:
    """Of the machine, or of the container if that has less."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists() and (text := limit.read_text().strip()) != "max":
        available = min(available, int(text) - int(used.read_text()))
    return available / 1e9


def _need_linux_tools() -> None:
    if sys.platform != "linux":
        raise StackError("the local stack runs on Linux only", "use a Linux machine, VM or WSL")
    if shutil.which("setpriv") is None:
        raise StackError("`setpriv` is not on PATH", "install the package util-linux")


def _need(have: float, needed: float, what: str, fix: str) -> None:
    if have < needed:
        raise StackError(f"{have:.1f} GB of {what} are left, {needed:.0f} GB are needed", fix)


def _line(report: Callable[[str], None], name: str, value: str, note: str) -> None:
    report(f"  {name:<8} {value:<20} {note}")
