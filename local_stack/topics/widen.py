"""The widening of a topic, step by step: no step leaves a state in which an entity loses its order.

1. Each gateway of this machine ends what it has under way to the topic and writes to it no more.
   What it accepts goes into its spool.
2. The barrier: who reads the topic does all that is in its partitions.
3. The jobs' file and each gateway's are given the new number. A gateway whose file says more than
   Kafka has goes by Kafka: so all of them change in the one moment in which the topic does.
4. The topic gets its partitions, and the gateways write again, first what is in their spools.

What was written before the barrier is done with before anything behind it can be read, wherever
that is. The gateways are held by locks of the system's (`writing_right.py`), so they go on at once
when this ends, whatever ends it: with the old partitions if the topic still has those, else with
the new ones. To call it again is always right: it does what is left to do.
"""

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from local_stack.terminal.errors import LOOK, StackError
from local_stack.topics.held_gateways import Numbers, held
from stream_jobs.guards.widened_topics import WidenedTopics

Ends = Mapping[tuple[str, int], int]
_HELD_WITHIN_S = 30.0
_HELD_MOST_S = 120.0  # what comes meanwhile has to have room in the spools
_NEAR_RECORDS = 2_000
_STILL_S = 1.0
_STILL_LOOKS = 5
_LOOK_S = 0.1


class Log(Protocol):
    def count(self) -> int | None: ...

    def ends(self) -> Ends: ...

    def unread(self, ends: Ends) -> dict[str, int]: ...

    def widen(self, to: int) -> None: ...


class RefusedError(StackError):
    """Kafka has refused it, for certain: the topic has the partitions that it had."""


class Widened(NamedTuple):
    topic: str
    before: int
    partitions: int
    held_s: float  # so long the gateways wrote to their spools


class Widening:
    def __init__(
        self,
        log: Log,
        state_dir: Path,
        topic: str,
        say: Callable[[str], None],
        still_s: float = _STILL_S,
    ) -> None:
        self._log, self._topic, self._say, self._still_s = log, topic, say, still_s
        self._state_dir = state_dir
        self._numbers = Numbers(state_dir, topic)
        self._accepted = WidenedTopics(state_dir)

    def is_done(self, to: int) -> bool:
        """Whether it is widened, by this or because nobody has written to fewer."""
        is_so = self._log.count() == to and set(self._numbers.now()) <= {0, to}
        if is_so:  # whoever has widened it may not have told the jobs
            self._accepted.accept(self._topic, to)
        return is_so

    def widen(self, to: int, running: Collection[str], within_s: float) -> Widened:
        """`running`: the gateways that do. StackError where it cannot be; then nothing has changed
        but what it says."""
        before = self._log.count() or 0
        # of one that others have widened; or the jobs would not go as far as the barrier
        self._accepted.accept(self._topic, before)
        self._wait_for_readers(within_s, None)
        began_s = time.monotonic()
        with held(self._state_dir, self._topic, running, _HELD_WITHIN_S):
            self._say("the gateways accept into their spools")
            ends = self._still_ends()
            self._wait_for_readers(min(within_s, _HELD_MOST_S), ends)
            if self._log.ends() != ends:
                raise self._others_write()
            self._switch(before, to)
        return Widened(self._topic, before, to, round(time.monotonic() - began_s, 1))

    def _still_ends(self) -> Ends:
        """What a gateway that was killed had sent may still arrive for a moment."""
        ends = self._log.ends()
        for _ in range(_STILL_LOOKS):
            time.sleep(self._still_s)
            before, ends = ends, self._log.ends()
            if ends == before:
                return ends
        raise self._others_write()

    def _wait_for_readers(self, within_s: float, barrier: Ends | None) -> None:
        """Until they have done all before the barrier. Without one, before the gateways are held:
        until little is left, so that they are held for a short time."""
        until_s, told, near = time.monotonic() + within_s, "", 0 if barrier else _NEAR_RECORDS
        while left := self._left(barrier or self._log.ends(), near):
            what = ", ".join(f"{job} has {unread} records to do" for job, unread in left.items())
            if time.monotonic() > until_s:
                raise StackError(
                    f"after {within_s:.0f} s {what} of {self._topic}; the gateways write to it, "
                    "and nothing was changed",
                    f"{LOOK}; then call this again, with more time by --within",
                )
            if not told:
                told = what
                self._say(what)
            time.sleep(_LOOK_S)

    def _left(self, ends: Ends, near: int) -> dict[str, int]:
        return {job: unread for job, unread in self._log.unread(ends).items() if unread > near}

    def _switch(self, before: int, to: int) -> None:
        """Where Kafka refuses, the gateways go by Kafka, and the jobs accept what was before."""
        self._accepted.accept(self._topic, to)
        self._numbers.set_all(to)
        if before < to:
            try:
                self._log.widen(to)
            except RefusedError:
                self._accepted.withdraw(self._topic, to)
                self._numbers.set_all(before)
                raise

    def _others_write(self) -> StackError:
        return StackError(
            f"somebody writes to {self._topic} who is no gateway of this stack: a gateway on "
            "another machine, or a producer of your own; nothing was changed",
            "stop it, and call this again",
        )
