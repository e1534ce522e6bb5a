"""Payloads on this node's disk while Kafka takes none: one spool, shared by its processes.

    spool/lock  users.lock  drainer.lock  set-aside/  topics/ingest.telemetry.v1/…

Each topic has a log of its own: order is owed within a topic alone, and a topic that Kafka does not
take keeps no other one waiting.
"""

import fcntl
import logging
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from pathlib import Path
from typing import NamedTuple

from gateway.spool.frame import Frame, bodies, unpack
from gateway.spool.lock import SpoolLock
from gateway.spool.set_aside import FOLDER, SetAside
from gateway.spool.spool_log import SpoolLog, Stuck
from shared.events.envelope import ID, text

log = logging.getLogger(__name__)


class SpoolState(NamedTuple):
    records: int
    bytes: int
    bytes_max: int
    age_ms: int
    set_aside_bytes: int
    set_aside_payloads: int
    stuck: tuple[Stuck, ...] = ()


class Spool:
    def __init__(self, folder: Path, bytes_max: int, topics: Iterable[str]) -> None:
        (folder / "topics").mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._bytes_max = bytes_max
        self._lock = SpoolLock(folder / "lock")
        self._users = (folder / "users.lock").open("a")
        self._drainer = (folder / "drainer.lock").open("a")
        self._aside = SetAside(folder / FOLDER)
        self._logs: dict[str, SpoolLog] = {}
        # of an endpoint that is no more there may be something left
        for topic in {*topics, *(path.name for path in (folder / "topics").iterdir())}:
            self._open(topic)
        with self._lock.held():
            self._recover_if_first()

    def close(self) -> None:
        if self._users.closed:
            return
        for one in self._logs.values():
            one.close()
        for file in (self._lock, self._users, self._drainer):
            file.close()

    @property
    def logs(self) -> tuple[SpoolLog, ...]:
        return tuple(self._logs.values())

    def of(self, topic: str) -> SpoolLog:
        return self._logs[topic]

    def is_empty(self) -> bool:
        return all(one.is_empty() for one in self._logs.values())

    def has_room(self) -> bool:
        return self._room() > 0

    def state(self) -> SpoolState:
        waiting = [one for one in self._logs.values() if not one.is_empty()]
        aside = self._aside.counted()
        now_ms = time.time_ns() // 1_000_000
        return SpoolState(
            sum(one.records for one in waiting),
            sum(one.bytes_waiting for one in waiting),
            self._bytes_max,
            max((max(0, now_ms - one.oldest_ms) for one in waiting), default=0),
            aside.bytes,
            aside.payloads,
            tuple(one.stuck for one in waiting if one.stuck),
        )

    def find(self, event_id: str, bytes_max: int) -> Iterator[Frame]:
        """Looks through what is not drained: so many bytes of each topic, from the oldest on.
        Changes nothing; what another process drains meanwhile may be missed."""
        named = event_id.encode()
        for raw in chain.from_iterable(_waiting(one, bytes_max) for one in self._logs.values()):
            for body in bodies(raw):
                if named in body and text((its := unpack(body)).record.headers, ID) == event_id:
                    yield its

    def may_drain(self) -> bool:
        """One process drains, and keeps to it until it ends."""
        try:
            fcntl.flock(self._drainer, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _room(self) -> int:
        return self._bytes_max - sum(one.bytes_waiting for one in self._logs.values())

    def _open(self, topic: str) -> None:
        folder = self._folder / "topics" / topic
        self._logs[topic] = SpoolLog(folder, topic, self._lock, self._room, self._aside)

    def _recover_if_first(self) -> None:
        try:
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # others use it: what they share is right
        else:
            self._aside.forget_halves()
            for one in self._logs.values():
                one.recover()
            self._take_in_the_common_log()
        fcntl.flock(self._users, fcntl.LOCK_SH)

    def _take_in_the_common_log(self) -> None:
        """All topics had one, once."""
        if not any(self._folder.glob("*.frames")):
            return
        log.info("the spool's common log is taken apart, by topic")
        bytes_max, self._bytes_max = self._bytes_max, sys.maxsize
        common = SpoolLog(self._folder, "", self._lock, self._room, self._aside)
        common.recover()
        while not common.is_empty():
            frames, end = common.read()
            for topic, of_topic in groupby(frames, lambda frame: frame.topic):
                if topic not in self._logs:
                    self._open(topic)
                mine = list(of_topic)
                if self.of(topic).append(mine) < len(mine):
                    raise OSError(f"{self._folder}: the disk takes nothing more")
            if frames:
                common.drained(len(frames), end, None)
        common.close()
        (self._folder / "positions").unlink()
        self._bytes_max = bytes_max


def _waiting(log: SpoolLog, bytes_max: int) -> Iterator[bytes]:
    for path, begin, end in log.waiting():
        if bytes_max <= 0:
            return
        try:
            with path.open("rb") as file:
                file.seek(begin)
                raw = file.read(min(end - begin, bytes_max))
        except FileNotFoundError:
            continue
        bytes_max -= len(raw)
        yield raw
