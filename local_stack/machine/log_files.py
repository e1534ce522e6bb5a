"""One log file per child; it starts anew once it has grown large."""

import re
from pathlib import Path
from typing import IO

LARGE_BYTES = 10_000_000
TAIL_BYTES = 60_000
TELLING = re.compile(r"error|exception|assertion|fatal|cannot|failed|refused", re.IGNORECASE)


def log_path(state_dir: Path, name: str) -> Path:
    return state_dir / "logs" / f"{name}.log"


def open_log(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > LARGE_BYTES:
        path.replace(path.with_suffix(".log.1"))
    return path.open("ab")


def telling_line(path: Path, offset: int = 0) -> str:
    """The last line that names a failure; frames of a stack trace are indented and say nothing."""
    lines = [line.rstrip() for line in tail(path, offset) if line.strip() and line[0] not in " \t"]
    failures = [line for line in lines if TELLING.search(line)]
    return (failures or lines or ["it wrote nothing"])[-1][:300]


def tail(path: Path, offset: int = 0) -> list[str]:
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(offset, path.stat().st_size - TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()
