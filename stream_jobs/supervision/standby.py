"""A second process of the same jobs, warm, that waits for its turn (`HEADRACE_STANDBY`)."""

import logging
import os
import re
import shutil
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from clients.kafka.offsets import LogOffsets
from shared.errors import AnotherCopyError
from shared.settings import JobSettings
from stream_jobs.guards.checkpoint_folder import checkpoint_of
from stream_jobs.guards.single_copy import OneCopy

_log = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.25


def wait_for_turn(
    offsets: Mapping[str, LogOffsets], settings: JobSettings, run: str, stop: threading.Event
) -> dict[str, OneCopy]:
    """By the names of the jobs, as soon as no other process has any of them; nothing where `stop`
    was set before. All that wait ask for them in one order, so none has what another one needs."""
    copies: dict[str, OneCopy] = {}
    said = ""
    while not stop.is_set():
        try:
            for job, its in offsets.items():
                if job not in copies:
                    copies[job] = copy_of(job, its, settings, run)
                copies[job].watch()
            return copies
        except AnotherCopyError as error:
            if str(error) != said:
                said = str(error)
                _log.info("stands by: %s", said)
        stop.wait(_LOOK_EVERY_S)
    return {}


def copy_of(job: str, offsets: LogOffsets, settings: JobSettings, run: str) -> OneCopy:
    return OneCopy(job, offsets, settings.checkpoints, run, checkpoint_of(settings, job))


def application_of_its_own(application: str, folder: Path) -> str:
    """Two processes work in one folder: each with its own part, and none with that of one that has
    ended."""
    for other in folder.glob(f"{application}-of-*"):
        pid = re.search(r"-of-(\d+)", other.name)
        if pid and not _lives(int(pid[1])):
            shutil.rmtree(other, ignore_errors=True)
            with suppress(OSError):
                other.unlink(missing_ok=True)
    return f"{application}-of-{os.getpid()}"


def _lives(pid: int) -> bool:
    return Path("/proc", str(pid)).exists()
