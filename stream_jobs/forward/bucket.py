"""Deliveries of a bucket of lines: kept in Spark's state while they wait, and sent; see `line.py`.

What gets through in the batch that brings it never touches the state.
"""

import pickle
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from pyspark.sql import Row

from clients.kafka.records import Outgoing
from shared.forwarding.answer import Answer, Verdict
from shared.forwarding.hook import Hook, Hooks, Status, status_key, status_record
from shared.topic_names import HOOK_TOPIC, gate_topic
from stream_jobs.forward.delivery import (
    STAGE,
    Delivery,
    Try,
    dead_letter,
    gate_value,
    hook_of,
    log_record,
)
from stream_jobs.forward.hook_feed import FeedTask, hook_feed
from stream_jobs.forward.kept import KeptDeliveries, KeptLines
from stream_jobs.forward.line import Line, Waiting, outcome
from stream_jobs.forward.sender import PATIENCE_S, LineRun, Sender, SenderTask, sender
from stream_jobs.guards.lease import check_lease
from stream_jobs.source.writing_processor import Handler
from stream_jobs.state.bulk_map_state import States

# what a bucket tells the driver of a batch: no topic gets it
TOLD_DDL = "look_ms long"
_DELIVERIES_AT_ONCE = 2_000
_LOST = Answer(None, 0, "whoever sent it is gone, and nobody knows what became of it")
# beside the time that a request may take: for its answer's way
_FLIGHT_GRACE_MS = 5_000


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


class ForwardTask(NamedTuple):
    """What a worker process needs to know; it builds the rest once and keeps it."""

    feed: FeedTask
    sender: SenderTask


class BucketOfDeliveries(Handler):
    def __init__(self, task: ForwardTask) -> None:
        self._task = task

    def init(self, states: States) -> None:
        self._kept = KeptLines(states.of("lines", "part"))
        self._deliveries = KeptDeliveries(states.of("deliveries", "line", "number"))

    @cached_property
    def _sender(self) -> Sender:
        return sender(self._task.sender)

    def handleInputRows(  # noqa: N802 - Spark's name
        self, bucket: Any, rows: Iterator[Any], _times: Any
    ) -> Iterator[Outgoing | Row]:
        check_lease(STAGE)
        came = [pickle.loads(row.packed) for row in rows]
        hooks = hook_feed(self._task.feed).look()
        batch = _Batch(
            bucket[0], hooks, self._kept.read(), self._deliveries, self._task, self._sender
        )
        told = batch.waiting.told()
        yield from batch.begin()
        for _, answers in came:
            yield from batch.hear(answers)
        arrived = [Delivery.unpack(raw) for deliveries, _ in came for raw in deliveries]
        yield from batch.take(sorted(arrived, key=lambda one: one.place))
        yield from batch.send()
        batch.waiting.forget(hook.name for hook in hooks.all())
        self._kept.write(batch.waiting)
        self._deliveries.write()
        now = batch.waiting.told()
        # a gate may be older than this state, so whoever only looks clears it
        if now != told or (now is None and not arrived):
            value = None if now is None else gate_value(*now)
            yield Outgoing(gate_topic(STAGE), str(bucket[0]).encode(), value, [])
        yield Row(look_ms=batch.waiting.next_look_ms(batch.sends))


class _Batch:
    def __init__(
        self,
        bucket: int,
        hooks: Hooks,
        waiting: Waiting,
        deliveries: KeptDeliveries,
        task: ForwardTask,
        its_sender: Sender,
    ) -> None:
        self.waiting = waiting
        self.sends = {hook.name: hooks.sends(hook) for hook in hooks.all()}
        self._bucket = bucket
        self._hooks = hooks
        self._deliveries = deliveries
        self._task = task
        self._sender = its_sender
        self._now_ms = clock_ms()

    def begin(self) -> Iterator[Outgoing]:
        """What waits for a hook that is deleted is dropped; for one that has ended it goes to the
        dead letters."""
        for key, line in list(self.waiting.lines.items()):
            hook = self._its_hook(hook_of(key), line.oldest_ms)
            if hook is not None and self._hooks.takes(hook):
                continue
            numbers = range(line.head, line.end)
            if hook is not None:
                for number, delivery in self._deliveries.get({key: numbers})[key]:
                    tries = line.tries if number == line.head else 0
                    yield dead_letter(delivery, tries, *self._why_not(hook))
            self._deliveries.remove(key, numbers)
            del self.waiting.lines[key]
        self.waiting.begin({hook.name: hook.revision for hook in self._hooks.all()})

    def _its_hook(self, name: str, arrived_ms: int) -> Hook | None:
        """None: it is deleted. Another one may have its name by now, and an URL of its own."""
        hook = self._hooks.get(name)
        return None if hook is None or arrived_ms < hook.made_ms else hook

    def _why_not(self, hook: Hook | None) -> tuple[str, str]:
        if hook is None:
            return "hook_gone", "the hook was deleted before this was sent on to it"
        status = self._hooks.status(hook)
        return "hook_ended", status.why if status else ""

    def hear(self, answers: Sequence[tuple[str, Try]]) -> Iterator[Outgoing]:
        """Answers that no batch has waited for, and those that will never come."""
        for key, of in answers:
            line = self.waiting.lines.get(key)
            if line is None or line.head != of.number or not line.waiting:
                continue  # it has got through otherwise
            if self._first(key, line).event.id != of.event_id:
                continue
            is_late = not line.flight_ms or line.tries + 1 != of.tried
            if not is_late or of.answer.verdict is Verdict.DONE:
                yield from self._settle(key, line, of)
        for key in list(self.waiting.lost(self._now_ms)):
            line = self.waiting.lines[key]
            event_id = self._first(key, line).event.id
            lost = Try(line.head, event_id, line.tries + 1, self._now_ms, _LOST)
            yield from self._settle(key, line, lost)

    def take(self, arrived: Sequence[Delivery]) -> Iterator[Outgoing]:
        for delivery in arrived:
            hook = self._its_hook(delivery.hook, delivery.arrived_ms)
            if hook is None or not self._hooks.takes(hook):
                if delivery.is_again:
                    yield dead_letter(delivery, 0, *self._why_not(hook))
                continue
            key = delivery.line(hook.order == "per entity")
            line = self.waiting.lines.setdefault(key, Line())
            if not line.waiting:
                line.due_ms, line.oldest_ms = self._now_ms, delivery.arrived_ms
            self._deliveries.put(key, line.end, delivery)
            line.end += 1

    def send(self) -> Iterator[Outgoing]:
        keys = self.waiting.to_try(self._now_ms, self.sends)
        keys = keys[:_DELIVERIES_AT_ONCE]
        ahead = max(4, _DELIVERIES_AT_ONCE // max(1, len(keys)))
        runs = [self._run(key, found) for key, found in self._fetched(keys, ahead).items()]
        check_lease(STAGE)
        if can_be_signed := [run for run in runs if run.keys]:
            self._sender.send(can_be_signed)
        self._now_ms = clock_ms()
        for run in runs:
            line = self.waiting.lines[run.key]
            for of in run.tried:
                yield from self._settle(run.key, line, of)
            if run.is_left:
                timeout_ms = int(run.hook.timeout_s * 1000)
                line.flight_ms = self._now_ms + timeout_ms + _FLIGHT_GRACE_MS
                self.waiting.target(run.hook.name).is_slow = True
            if run.not_before_ms:
                target = self.waiting.target(run.hook.name)
                target.due_ms = max(target.due_ms, run.not_before_ms)

    def _fetched(self, keys: Sequence[str], ahead: int) -> dict[str, list[tuple[int, Delivery]]]:
        wanted = {}
        for key in keys:
            line = self.waiting.lines[key]
            # of a line that has failed before the first one alone tells whether it goes on
            count = 1 if line.tries else ahead
            wanted[key] = range(line.head, min(line.end, line.head + count))
        return self._deliveries.get(wanted)

    def _run(self, key: str, deliveries: Sequence[tuple[int, Delivery]]) -> LineRun:
        hook = self._hooks.get(hook_of(key))
        assert hook is not None
        tries = self.waiting.lines[key].tries
        run = LineRun(
            self._bucket, key, hook, [], tries, deliveries, self.waiting.target(hook.name).is_slow
        )
        try:
            run.keys = hook_feed(self._task.feed).keys(hook, self._now_ms)
        except ValueError as error:  # it must not keep others from getting theirs
            number, delivery = deliveries[0]
            answer = Answer(None, 0, f"not sent: {error}")
            run.tried.append(Try(number, delivery.event.id, tries + 1, self._now_ms, answer))
        return run

    def _settle(self, key: str, line: Line, of: Try) -> Iterator[Outgoing]:
        """What becomes of the first of a line, now that there is an answer, or that there will be
        none."""
        hook = self._hooks.get(hook_of(key))
        if hook is None:
            return
        policy, answer = hook.retries.policy, of.answer
        delivery = self._first(key, line)
        yield log_record(delivery, of)
        target = self.waiting.target(hook.name)
        if target.hear(answer, self._now_ms, int(PATIENCE_S * 1000)):
            self.waiting.hurry(hook.name, self._now_ms)
        if answer.verdict is Verdict.FAILED:
            line.failed(delivery.event.id, answer, self._now_ms, policy)
        is_over = line.is_over(self._now_ms, policy)
        what = outcome(answer.verdict, is_over, target.fails_for_ms(self._now_ms), policy)
        match what:
            case "done":
                self._pass(key, line)
            case "given up":
                yield dead_letter(delivery, line.tries, "not_delivered", answer.told())
                self._pass(key, line)
            case "paused" | "ended":
                why = f"{answer.told()}, for the event {delivery.event.id}"
                yield from self._end(hook, what, why)

    def _first(self, key: str, line: Line) -> Delivery:
        ((_, delivery),) = self._deliveries.get({key: [line.head]})[key]
        return delivery

    def _pass(self, key: str, line: Line) -> None:
        self._deliveries.remove(key, [line.head])
        line.passed(self._now_ms)

    def _end(self, hook: Hook, state: str, why: str) -> Iterator[Outgoing]:
        """It counts once it is on the topic: this batch may fail."""
        if self.sends[hook.name]:
            self.sends[hook.name] = False
            status = Status(state=state, why=why, at_ms=self._now_ms, revision=hook.revision)
            yield Outgoing(HOOK_TOPIC, status_key(hook.name), status_record(status), [])
