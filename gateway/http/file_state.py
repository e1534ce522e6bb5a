"""Whether a file was replaced: it has another state then."""

from pathlib import Path


def file_state(path: Path) -> object:
    """None where it cannot be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
