"""Folders that their user alone can look into: payloads, states and secrets are in them. Standard
library only: the launcher needs it before any package is there."""

import logging
import os
import stat
from pathlib import Path

_log = logging.getLogger(__name__)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keep_private(folder: Path) -> None:
    """Makes it, or closes to others one that is there. What is not ours to close is told: another's
    folder (a volume, say), or one that all share, such as /tmp."""
    folder.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    status = folder.stat()
    if not status.st_mode & _OTHERS:
        return
    if status.st_uid != os.geteuid() or status.st_mode & stat.S_ISVTX:
        _log.warning("%s is open to others and not ours to close: see who can read it", folder)
    else:
        folder.chmod(stat.S_IRWXU)
