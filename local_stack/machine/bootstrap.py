"""First start: makes the hash-locked Python environment. Later starts: runs it at once.

Standard library only, because nothing else is installed yet.
"""

# ruff: noqa: E402
import signal

# Ctrl-C while the rest is imported ends it as it ends any program, without a stack trace
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # ./headrace holds it back

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import NoReturn

from local_stack.machine.locks import only_one_at_a_time
from local_stack.machine.paths import CHECKOUT, cache_dir, python_path
from local_stack.terminal.progress import ProgressLine, say

LOCKED = CHECKOUT / "requirements" / "local.txt"


def run(module: str, *arguments: str) -> NoReturn:
    """Becomes the environment's Python, and in it the module, which lets Ctrl-C come again."""
    cache = cache_dir()
    folder = cache / f"venv-{_fingerprint()}"
    python = folder / "bin" / "python"
    if not _complete(folder):
        try:
            with only_one_at_a_time(cache / "venv.lock", "the Python environment"):
                if not _complete(folder):
                    _make(folder)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"headrace: the Python environment could not be made: {error}")
        except KeyboardInterrupt:
            sys.exit("\nheadrace: stopped; the next start begins the environment again.")
    environment = {
        **os.environ,
        "PYTHONPATH": python_path(os.environ),
        "HEADRACE_CACHE_DIR": str(cache),
    }
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    os.execve(python, [str(python), "-m", module, *arguments], environment)


def _fingerprint() -> str:
    version = ".".join(map(str, sys.version_info[:3]))
    return hashlib.sha256(LOCKED.read_bytes() + version.encode()).hexdigest()[:12]


def _complete(folder: Path) -> bool:
    # The interpreter is a link: it dangles once the Python it was made from is uninstalled.
    return (folder / ".complete").exists() and (folder / "bin" / "python").exists()


def _make(folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    say(f"First start: making the Python environment in {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    log = folder / "pip.log"
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--require-hashes"]
    command += ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    command += ["-r", str(LOCKED)]
    if not _install(command, log):
        raise OSError(f"pip failed: {_last_error(log)} (all of it: {log})")
    (folder / ".complete").touch()


def _install(command: list[str], log: Path) -> bool:
    total = len(re.findall(r"^[a-z0-9].*==", LOCKED.read_text(), re.MULTILINE))
    progress = ProgressLine("Python packages")
    seen = 0
    pip = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # a package from elsewhere must not stand in for a locked one
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        preexec_fn=_end_with_parent,
    )
    assert pip.stdout is not None
    with log.open("w") as file:
        for line in pip.stdout:
            file.write(line)
            if line.startswith("Collecting "):
                seen += 1
                progress.show(f"{seen} of {total}, {line.split()[1]}")
            elif line.startswith("Installing collected"):
                progress.show(f"all {seen} fetched, unpacking ...")
    if pip.wait() == 0:
        progress.done(f"{seen} installed")
    return pip.returncode == 0


def _end_with_parent() -> None:
    """No pip may go on in the folder that the next start makes anew."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def _last_error(log: Path) -> str:
    errors = [line for line in log.read_text().splitlines() if line.startswith("ERROR")]
    return errors[-1] if errors else "no reason given"


if __name__ == "__main__":
    run("local_stack", *sys.argv[1:])
