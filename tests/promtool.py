"""Prometheus' own promtool: the one on PATH, or else Debian's, fetched once, not installed."""

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from local_stack.machine.paths import cache_dir

_DOWNLOAD = ("apt-get", "download", "-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10")
_PACKAGE = "prometheus"
_WITHIN_S = 60


class _NotHereError(Exception):
    pass


def promtool(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = _program()
    if isinstance(program, _NotHereError):
        pytest.skip(f"there is no promtool on PATH, and {program}")
    return subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


@functools.cache
def _program() -> str | _NotHereError:
    """Not had once is not tried again: to find out may take a minute."""
    if found := shutil.which("promtool"):
        return found
    kept = cache_dir() / "promtool"
    try:
        if not kept.exists():
            _fetch(kept)
    except _NotHereError as error:
        return error
    return str(kept)


def _fetch(kept: Path) -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise _NotHereError("nothing here fetches Debian's")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        folder = Path(name)
        try:
            _run((*_DOWNLOAD, _PACKAGE), folder)
            (package,) = folder.glob("*.deb")
            _run(("dpkg-deb", "-x", package.name, "."), folder)
        except (subprocess.SubprocessError, ValueError) as error:
            raise _NotHereError(f"Debian's cannot be fetched: {error}") from None
        # whole or not at all: two runs of the tests may do this at once
        (folder / "usr" / "bin" / "promtool").replace(kept)


def _run(command: Sequence[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=_WITHIN_S)
