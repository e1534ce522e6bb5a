"""What a worker process sends to hooks: many requests at once, on a loop of its own.

A batch waits for answers, but not for long: a server that is slow would hold up all others. What is
still under way then goes on without it, and its answer comes as a record that wakes a later batch.
"""

import asyncio
import resource
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from confluent_kafka import Producer

from clients.kafka.connect import writer
from shared.forwarding.answer import Answer, HookVerdict
from shared.forwarding.cloud_event import CloudEvent, message_id, request
from shared.forwarding.hook import Hook
from shared.forwarding.mail import mail
from shared.forwarding.mail_access import MailAccess
from shared.forwarding.signature import signed
from shared.kafka_access import KafkaAccess
from shared.timestamps import now_ms
from stream_jobs.forward.delivery import Delivery, Try, answer_record

# a batch waits for answers
PATIENCE_S = 1.0
# for those of a hook that was slow the last time
_PATIENCE_WITH_SLOW_S = 0.05
# until a hook is looked at again whose slots are all taken: an answer looks earlier
_SLOTS_AGAIN_MS = 1_000
# of the events that go together
_TOGETHER_BYTES_MAX = 1_000_000


class SenderTask(NamedTuple):
    """What a worker process needs to know."""

    kafka: KafkaAccess
    hosts_allowed: frozenset[str]
    buckets: int  # which share what a hook allows
    mail: MailAccess | None = None


@dataclass
class LineRun:
    """A line in a batch."""

    bucket: int
    key: str
    hook: Hook
    keys: Sequence[bytes]  # it is signed with
    tries: int  # of the first one, until now
    deliveries: Sequence[tuple[int, Delivery]]  # with their numbers
    is_slow: bool
    tried: list[Try] = field(default_factory=list)
    # events that are under way together, and those that the batch has left under way
    in_flight: int = 0
    left: int = 0
    # its hook's limits let nothing go before
    not_before_ms: int = 0


class _Limits:
    """This process's share of a hook's limits."""

    def __init__(self, hook: Hook, buckets: int) -> None:
        self.slots = asyncio.Semaphore(max(1, hook.concurrency // buckets))
        self._gap_s = buckets / hook.per_s if hook.per_s else 0.0
        self._next_s = 0.0

    def wait_s(self) -> float:
        """How long it is until one may begin."""
        return max(0.0, self._next_s - time.monotonic())

    def begin(self) -> None:
        """When it may; the next one later."""
        self._next_s = max(time.monotonic(), self._next_s) + self._gap_s


class Sender:
    def __init__(self, task: SenderTask) -> None:
        # the workers of all jobs know this module, and most stacks have no hook
        from clients.mail.send import MailServer
        from clients.web.open_internet import OpenInternet

        self._task = task
        self._loop = asyncio.new_event_loop()
        self._web = OpenInternet(task.hosts_allowed)
        # the hosts that operators allow themselves are not for others to reach
        self._web_of_tenants = OpenInternet(())
        self._mail = MailServer(task.mail) if task.mail else None
        self._limits: dict[tuple[str, int], _Limits] = {}
        self._left: set[asyncio.Task[None]] = set()
        self._producer: Producer = writer(
            task.kafka,
            # an answer that is lost is one that never came: it is tried again
            {"enable.idempotence": False, "linger.ms": 0, "message.timeout.ms": 10_000},
        )
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # each request needs one
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def send(self, runs: Sequence[LineRun]) -> None:
        """Each line until one of it fails, there is none any more, or the batch has no more time.
        What has been tried then stands in the runs."""
        asyncio.run_coroutine_threadsafe(self._send(runs), self._loop).result()

    async def _send(self, runs: Sequence[LineRun]) -> None:
        began_s = time.monotonic()
        until_s = began_s + PATIENCE_S
        slow_until_s = began_s + _PATIENCE_WITH_SLOW_S
        tasks = {
            asyncio.create_task(self._line(run, slow_until_s if run.is_slow else until_s)): run
            for run in runs
        }
        await asyncio.wait(tasks, timeout=_PATIENCE_WITH_SLOW_S)
        waits_for = [task for task, run in tasks.items() if not run.is_slow and not task.done()]
        if waits_for:
            await asyncio.wait(waits_for, timeout=until_s - time.monotonic())
        moves = {run.hook.name for run in runs if run.tried}
        for task, run in tasks.items():
            if task.done():
                task.result()
            elif run.in_flight:
                run.left = run.in_flight  # here: on this loop nothing ends meanwhile
                self._left.add(task)
                task.add_done_callback(self._left.discard)
            else:
                task.cancel()
                if run.hook.name not in moves:  # others, which are slow, have all its slots
                    run.not_before_ms = now_ms() + _SLOTS_AGAIN_MS

    async def _line(self, run: LineRun, until_s: float) -> None:
        limits = self._limits_of(run.hook)
        for number, together in requests(run):
            async with limits.slots:
                wait_s = limits.wait_s()
                # what would be begun later is cancelled before: the time must not be used up for it
                if time.monotonic() + wait_s > until_s:
                    run.not_before_ms = now_ms() + int(wait_s * 1000)
                    return
                limits.begin()
                await asyncio.sleep(wait_s)
                run.in_flight = len(together)
                tried = 1 if run.tried else run.tries + 1
                at_ms, answer = now_ms(), await self._post(run, together)
                made = Try(number, together[0].id, tried, at_ms, answer, len(together))
                run.in_flight = 0
            if run.left:
                self._report(run, made)
                return
            run.tried.append(made)
            if made.answer.verdict is not HookVerdict.DONE:
                return

    async def _post(self, run: LineRun, events: Sequence[CloudEvent]) -> Answer:
        if run.hook.is_mail:
            return await self._mail_of(run.hook, events)
        headers, body = request(run.hook, events)
        signature = signed(message_id(events), now_ms() // 1000, body, run.keys)
        web = self._web_of_tenants if run.hook.is_of_a_tenant else self._web
        return await web.post(run.hook.url, {**headers, **signature}, body, run.hook.timeout_s)

    async def _mail_of(self, hook: Hook, events: Sequence[CloudEvent]) -> Answer:
        if self._mail is None or self._task.mail is None:
            return Answer(None, 0, "not sent: HEADRACE_MAIL_SERVER names no mail server")
        message = mail(hook, events, self._task.mail.sender, now_ms())
        return await self._mail.send(message, hook.timeout_s)

    def _report(self, run: LineRun, made: Try) -> None:
        topic, key, value, _ = answer_record(run.bucket, run.key, made)
        self._producer.poll(0)
        self._producer.produce(topic, value, key)

    def _limits_of(self, hook: Hook) -> _Limits:
        known = self._limits.get((hook.name, hook.revision))
        if known is None:
            known = _Limits(hook, 1 if hook.is_mail else self._task.buckets)
            self._limits[hook.name, hook.revision] = known
        return known


def requests(run: LineRun) -> Iterator[tuple[int, list[CloudEvent]]]:
    """With the number of the first of each."""
    together: list[CloudEvent] = []
    begin = size = 0
    for number, delivery in run.deliveries:
        length = len(delivery.value or b"")
        if together and (len(together) == run.hook.batch or size + length > _TOGETHER_BYTES_MAX):
            yield begin, together
            together, size = [], 0
        if not together:
            begin = number
        together.append(delivery.event)
        size += length
    if together:
        yield begin, together


@cache  # a process keeps one, with its connections
def sender(task: SenderTask) -> Sender:
    return Sender(task)
