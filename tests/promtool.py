"""Prometheus' own promtool: the one on PATH, or else Debian's, fetched once, not installed."""

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from local_stack.machine.paths import cache_dir

_PACKAGE = "prometheus"
_FETCHED_WITHIN_S = 120


def promtool(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [_program(), *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


@functools.cache
def _program() -> str:
    if found := shutil.which("promtool"):
        return found
    kept = cache_dir() / "promtool"
    if not kept.exists():
        _fetch(kept)
    return str(kept)


def _fetch(kept: Path) -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        pytest.skip("there is no promtool on PATH, and nothing here that fetches Debian's")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        folder = Path(name)
        try:
            _run(["apt-get", "download", _PACKAGE], folder)
            (package,) = folder.glob("*.deb")
            _run(["dpkg-deb", "-x", package.name, "."], folder)
        except (subprocess.SubprocessError, ValueError) as error:
            pytest.skip(f"there is no promtool on PATH, and Debian's cannot be fetched: {error}")
        # whole or not at all: two runs of the tests may do this at once
        (folder / "usr" / "bin" / "promtool").replace(kept)


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_FETCHED_WITHIN_S)
