"""What the machine must have: each check tells what it found, a failure names its fix."""

import os
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from local_stack.machine.java import find_java
from local_stack.machine.without_root import without_root
from local_stack.terminal.errors import StackError

DISK_NEEDED_GB = 2.0
MEMORY_NEEDED_GB = 2.0


class CheckResult(NamedTuple):
    value: str
    note: str = ""


def preflight(state_dir: Path, report: Callable[[str], None]) -> None:
    """What `up` asks for; it also makes the state folder and fetches a Java if there is none."""

    def told(name: str, found: CheckResult) -> None:
        report(f"  {name:<8} {found.value:<20} {found.note}")

    told("Python", python())
    linux_tools()
    postgres_user()
    java = find_java()
    told("Java", CheckResult(java.version, str(java.home)))
    state_dir.mkdir(parents=True, exist_ok=True)
    told("disk", disk(state_dir))
    told("memory", memory())


def python() -> CheckResult:
    return CheckResult(platform.python_version(), sys.executable)


def linux_tools() -> CheckResult:
    if sys.platform != "linux":
        raise StackError("the local stack runs on Linux only", "use a Linux machine, VM or WSL")
    if shutil.which("setpriv") is None:
        raise StackError("`setpriv` is not on PATH", "install the package util-linux")
    return CheckResult("setpriv", "ends the parts with their launcher")


def postgres_user() -> CheckResult:
    if os.environ.get("HEADRACE_POSTGRES_URL"):
        return CheckResult("not needed", "HEADRACE_POSTGRES_URL names a server")
    if without_root():
        return CheckResult(
            "a user namespace", "`unshare` works: PostgreSQL runs though you are root"
        )
    return CheckResult("you", "not root: PostgreSQL runs as it is")


def disk(folder: Path) -> CheckResult:
    free = shutil.disk_usage(folder).free / 1e9
    _need(free, DISK_NEEDED_GB, "disk", f"free some at {folder}, or set HEADRACE_STATE_DIR")
    return CheckResult(f"{free:.0f} GB free", str(folder))


def memory() -> CheckResult:
    available = available_memory_gb()
    _need(available, MEMORY_NEEDED_GB, "memory", "close other programs, or use a larger machine")
    return CheckResult(f"{available:.1f} GB available", "Kafka 0.5 GB, Spark about 1 GB")


def available_memory_gb() -> float:
    """The memory of the machine, or of the container if that has less."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists() and (text := limit.read_text().strip()) != "max":
        available = min(available, int(text) - int(used.read_text()))
    return available / 1e9


def _need(have: float, needed: float, what: str, fix: str) -> None:
    if have < needed:
        raise StackError(f"{have:.1f} GB of {what} are left, {needed:.0f} GB are needed", fix)
