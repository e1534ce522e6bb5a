"""The gateways of this machine while a topic is widened: they accept, and write to it no more."""

import fcntl
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gateway.kafka_writer.known_partitions import KnownPartitions
from gateway.spool.writing_right import SoleRight
from local_stack.servers.gateways import node_folders
from local_stack.terminal.errors import LOOK, StackError

_LOCK = "widening.lock"
_AGAIN_WITHIN_S, _LOOK_S = 2.0, 0.05


@contextmanager
def one_widening(state_dir: Path) -> Iterator[None]:
    with (state_dir / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StackError("a topic is being widened", "wait until that has ended") from error
        yield


@contextmanager
def held(state_dir: Path, topic: str, running: Collection[str], within_s: float) -> Iterator[None]:
    """What they accept meanwhile is in their spools. Those that are not running could be started:
    they are held, too."""
    rights = {
        name: SoleRight(folder / "spool" / "topics" / topic)
        for name, folder in node_folders(state_dir).items()
    }
    with ExitStack() as open_rights:
        for right in rights.values():
            open_rights.enter_context(right)
        for name in sorted(running):
            if name not in rights or not _writes(rights[name]):
                raise StackError(
                    f"{name} does not say whether it writes to {topic}: it is just starting, or "
                    "has no spool (HEADRACE_SPOOL_BYTES_MAX is 0), where payloads would wait "
                    "meanwhile; nothing was changed",
                    "give it a spool, restart it, and call this again",
                )
        for right in rights.values():
            right.ask()
        until_s = time.monotonic() + within_s
        for name, right in rights.items():
            if not right.take(lambda: time.monotonic() < until_s):
                raise StackError(
                    f"{name} has had payloads for {topic} under way for {within_s:.0f} s: Kafka "
                    "does not take them; nothing was changed",
                    LOOK,
                )
        yield


def _writes(right: SoleRight) -> bool:
    """One that has just been held takes a moment to write again."""
    until_s = time.monotonic() + _AGAIN_WITHIN_S
    while not right.somebody_writes():
        if time.monotonic() > until_s:
            return False
        time.sleep(_LOOK_S)
    return True


class Numbers:
    """How many partitions of a topic the nodes write to."""

    def __init__(self, state_dir: Path, topic: str) -> None:
        self._topic = topic
        self._nodes = [KnownPartitions(node, {}) for node in node_folders(state_dir).values()]

    def now(self) -> list[int]:
        """0: a node that has not written to it yet."""
        return [known.of(self._topic) for known in self._nodes]

    def set_all(self, count: int) -> None:
        for known in self._nodes:
            known.remember(self._topic, count)
