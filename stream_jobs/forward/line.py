"""What waits for a hook, in a bucket: lines, and how their targets are. Pure.

A *line* has what one hook is to get of one entity, in order. Only its first one is ever under way,
so that nothing overtakes it; when that has failed the whole line waits, and nobody else.

A *target* is what a bucket knows of a hook's server. If several tries in a row fail, whosever they
are, it is down: then one line is tried now and then, and the others need not fail one by one. When
that one gets through, all go on at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shared.forwarding.answer import Answer, HookVerdict
from shared.retry_policy import RetryPolicy
from stream_jobs.forward.delivery import hook_of, is_replay

_IS_DOWN_AFTER = 3
_PROBE_FIRST_MS, _PROBE_MAX_MS = 1_000, 60_000
NEVER_MS = 2**62
_LATE_MS = 180_000


@dataclass
class Line:
    head: int = 0  # the number of the first one
    end: int = 0  # and of the next to come
    tries: int = 0  # of the first one
    first_ms: int = 0  # when it was tried first
    due_ms: int = 0
    # until when an answer is expected, of a try that no batch has waited for
    flight_ms: int = 0
    flight_events: int = 0  # which went together
    # since when the first one is there: it may be less, never more
    oldest_ms: int = 0

    @property
    def waiting(self) -> int:
        return self.end - self.head

    def passed(self, now_ms: int, count: int = 1) -> None:
        """The first ones are done with."""
        self.head += count
        self.tries = self.first_ms = self.flight_ms = 0
        self.due_ms = now_ms

    def failed(self, event_id: str, answer: Answer, now_ms: int, policy: RetryPolicy) -> None:
        self.tries += 1
        self.first_ms = self.first_ms or now_ms
        self.flight_ms = 0
        pause_ms = policy.pause_ms(event_id, self.tries)
        self.due_ms = now_ms + max(pause_ms, answer.wait_ms(now_ms))

    def is_over(self, now_ms: int, policy: RetryPolicy) -> bool:
        return self.tries > 0 and policy.is_over(self.tries, now_ms - self.first_ms)


@dataclass
class Target:
    failures: int = 0  # in a row
    since_ms: int = 0  # the first of them
    due_ms: int = 0  # nothing before
    is_slow: bool = False  # no batch waits for its answers
    revision: int = 0  # of the hook, of which all this is known

    @property
    def is_down(self) -> bool:
        return self.failures >= _IS_DOWN_AFTER

    def hear(self, answer: Answer, now_ms: int, patience_ms: int) -> bool:
        """Whether it is back."""
        self.is_slow = answer.ms > patience_ms
        if not answer.is_of_the_target:
            was_down = self.is_down
            self.failures = self.since_ms = self.due_ms = 0
            return was_down
        self.failures += 1
        self.since_ms = self.since_ms or now_ms
        wait_ms = answer.wait_ms(now_ms)
        if self.is_down:
            doublings = min(self.failures - _IS_DOWN_AFTER, 16)
            wait_ms = max(wait_ms, min(_PROBE_FIRST_MS << doublings, _PROBE_MAX_MS))
        self.due_ms = now_ms + wait_ms if wait_ms else 0
        return False

    def fails_for_ms(self, now_ms: int) -> int:
        return now_ms - self.since_ms if self.is_down else 0


class Waiting:
    """All lines of a bucket, and its targets."""

    def __init__(
        self, lines: dict[str, Line], targets: dict[str, Target], look_ms: int = 0
    ) -> None:
        """`look_ms`: when the next batch was to look at them at the latest; 0: nobody knows."""
        self.lines = lines
        self.targets = targets
        self.look_ms = look_ms

    def go_on(self, now_ms: int) -> None:
        """The time in which a try was due and forward paused makes nothing old, and nobody long
        away."""
        late_ms = now_ms - self.look_ms
        if not self.look_ms or late_ms < _LATE_MS:
            return
        for line in self.lines.values():
            line.first_ms += late_ms if line.first_ms else 0
        for target in self.targets.values():
            target.since_ms += late_ms if target.since_ms else 0

    def target(self, hook: str) -> Target:
        return self.targets.setdefault(hook, Target())

    def to_try(self, now_ms: int, sends: Mapping[str, bool]) -> list[str]:
        """Which lines, the longest due first; of a target that is down, one. `sends`: hooks that
        are sent to; of others all waits."""
        found: list[str] = []
        probed = self._in_flight()  # of a target that is down
        # what is new goes before what is replayed
        due = sorted(self.lines.items(), key=lambda one: (is_replay(one[0]), one[1].due_ms))
        for key, line in due:
            hook = hook_of(key)
            target = self.targets.get(hook)
            if line.flight_ms or not line.waiting or not sends.get(hook):
                continue
            if target is not None and target.due_ms > now_ms:
                continue
            if target is not None and target.is_down:
                if hook not in probed:
                    probed.add(hook)
                    found.append(key)
            elif line.due_ms <= now_ms:
                found.append(key)
        return found

    def _in_flight(self) -> set[str]:
        """Hooks that have a try under way."""
        return {hook_of(key) for key, line in self.lines.items() if line.flight_ms}

    def hurry(self, hook: str, now_ms: int) -> None:
        """All its lines: its target is back."""
        for key, line in self.lines.items():
            if hook_of(key) == hook:
                line.due_ms = min(line.due_ms, now_ms)

    def begin(self, revisions: Mapping[str, int]) -> None:
        """Begins with these revisions, by hook. Whoever has changed one, and be it that it was
        resumed, gives its server as much time as it had at first."""
        changed = {
            hook: Target(revision=revision)
            for hook, revision in revisions.items()
            if self.target(hook).revision != revision
        }
        self.targets |= changed
        for key, line in self.lines.items() if changed else ():
            if hook_of(key) in changed:
                line.tries = line.first_ms = line.due_ms = 0

    def lost(self, now_ms: int) -> Iterator[str]:
        """Lines whose try nobody will tell the end of: whoever made it is gone."""
        for key, line in self.lines.items():
            if line.flight_ms and line.flight_ms <= now_ms:
                yield key

    def next_look_ms(self, sends: Mapping[str, bool]) -> int:
        found, in_flight = NEVER_MS, self._in_flight()
        for key, line in self.lines.items():
            if line.flight_ms:
                found = min(found, line.flight_ms)
            elif sends.get(hook := hook_of(key)):
                target = self.targets.get(hook, Target())
                if target.is_down and hook in in_flight:
                    continue  # that one tells how it is
                due_ms = 0 if target.is_down else line.due_ms
                found = min(found, max(due_ms, target.due_ms))
        return found

    def told(self) -> tuple[int, dict[str, int]] | None:
        """Since when something waits, and how much by hook; None: nothing does."""
        waiting: dict[str, int] = {}
        for key, line in self.lines.items():
            waiting[hook_of(key)] = waiting.get(hook_of(key), 0) + line.waiting
        if not waiting:
            return None
        return min(line.oldest_ms for line in self.lines.values()), dict(sorted(waiting.items()))

    def forget(self, hooks: Iterable[str]) -> None:
        """What need not be kept: lines that are empty, and targets that are well and for which
        nothing waits."""
        known = set(hooks)
        self.lines = {key: line for key, line in self.lines.items() if line.waiting}
        wait = {hook_of(key) for key in self.lines}
        self.targets = {
            hook: target
            for hook, target in self.targets.items()
            if hook in wait or (hook in known and target != Target(revision=target.revision))
        }


def outcome(verdict: HookVerdict, is_over: bool, fails_for_ms: int, policy: RetryPolicy) -> str:
    """What becomes of the first of a line: it is `done`, it `waits`, it is `given up`, or the whole
    hook is `ended` or `paused`: nobody is given up because a server is away."""
    if verdict is HookVerdict.DONE:
        return "done"
    if verdict is HookVerdict.GONE:
        return "ended"
    if not is_over:
        return "waits"
    return "paused" if fails_for_ms >= policy.age_max_s * 1000 else "given up"


def dump(one: Line | Target) -> list[Any]:
    """In the order of its fields. `astuple` takes thirty times as long, and it is done in each
    batch for all that wait."""
    return list(vars(one).values())
