"""A second process of the same jobs, warm, that waits for its turn (`HEADRACE_STANDBY`)."""

import fcntl
import logging
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from clients.kafka.offsets import LogOffsets
from shared.errors import AnotherCopyError
from shared.settings import JobSettings
from stream_jobs.guards.checkpoint_folder import checkpoint_of
from stream_jobs.guards.single_copy import OneCopy

_log = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.25
_held: list[int] = []  # until this process ends


def wait_for_turn(
    offsets: Mapping[str, LogOffsets],
    settings: JobSettings,
    run: str,
    stop: threading.Event,
    rehearse: Callable[[], None] = lambda: None,
) -> dict[str, OneCopy]:
    """The copies by the names of the jobs, as soon as no other process has any of them; nothing
    where `stop` was set before. All that wait ask for them in one order, so none has what another
    one needs. Who has to wait uses the time to `rehearse`."""
    copies: dict[str, OneCopy] = {}
    said = ""
    has_rehearsed = False
    while not stop.is_set():
        try:
            are_free = True
            for job, its in offsets.items():
                if job not in copies:
                    copies[job] = copy_of(job, its, settings, run)
                are_free &= copies[job].watch()
            if are_free:
                return copies
            why = ""
        except AnotherCopyError as error:
            why = str(error)
        if not has_rehearsed:
            has_rehearsed = True
            rehearse()
        if why and why != said:
            said = why
            _log.info("stands by: %s", said)
        stop.wait(_LOOK_EVERY_S)
    return {}


def copy_of(job: str, offsets: LogOffsets, settings: JobSettings, run: str) -> OneCopy:
    return OneCopy(job, offsets, settings.checkpoints, run, checkpoint_of(settings, job))


def application_of_its_own(application: str, folder: Path) -> str:
    """Several processes work in one folder: each with its own part, and none with that of one that
    has ended. A lock says who lives, also to a container that does not see the other's processes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for lock in folder.glob(f"{application}-of-*.lock"):
        _remove_if_it_has_ended(lock)
    own = f"{application}-of-{uuid4().hex[:12]}"
    hidden = folder / f".{own}.lock"  # nobody is to find it before it is held
    held = os.open(hidden, os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(held, fcntl.LOCK_EX)
    hidden.rename(folder / f"{own}.lock")
    _held.append(held)
    return own


def _remove_if_it_has_ended(lock: Path) -> None:
    with suppress(OSError):
        held = os.open(lock, os.O_RDWR)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for its in lock.parent.glob(f"*{lock.stem}*"):
                shutil.rmtree(its) if its.is_dir() else its.unlink(missing_ok=True)
        finally:
            os.close(held)
