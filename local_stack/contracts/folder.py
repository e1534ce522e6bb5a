"""The documents as files in a folder: which are stale, and whom a new one would break."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from local_stack.contracts.asyncapi import SUFFIX
from local_stack.contracts.breaking import HURTS_WRITERS, breaks
from local_stack.contracts.documents import MARK
from shared.model import Fields

Documents = Mapping[str, Fields]


def stale(folder: Path, wanted: Documents) -> list[str]:
    """Names of files that are missing, differ, or belong to a topic that the flow no longer has."""
    differ = [name for name, document in wanted.items() if _read(folder / name) != document]
    return sorted([*differ, *(path.name for path in _left_over(folder, wanted))])


def broken(folder: Path, wanted: Documents, written_by_others: set[str]) -> list[str]:
    """What writing would break, a line each."""
    others = tuple(f"{topic}." for topic in written_by_others)
    lines = [f"{path.name.removesuffix(SUFFIX)} is gone" for path in _left_over(folder, wanted)]
    for name, document in wanted.items():
        old = _read(folder / name)
        if not name.endswith(SUFFIX) or not isinstance(old, dict):
            continue
        topic = name.removesuffix(SUFFIX)
        lines += [
            f"{topic}: {found}"
            for found in breaks(old, document)
            if found.what in HURTS_WRITERS or not f"{topic}.".startswith(others)
        ]
    return lines


def write(folder: Path, wanted: Documents) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in wanted.items():
        (folder / name).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    for path in _left_over(folder, wanted):
        path.unlink()


def _left_over(folder: Path, wanted: Documents) -> Iterator[Path]:
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        document = {} if path.name in wanted else _read(path)
        if isinstance(document, dict) and document.get("$comment") == MARK:
            yield path


def _read(path: Path) -> Any:
    """None where it is no JSON: then it is not ours as it should be."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
