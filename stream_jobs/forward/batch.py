"""What a batch does with the deliveries of a bucket: it hears answers, takes what has come, sends
what is due, and settles what comes of it; see `line.py`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from clients.kafka.records import Outgoing
from shared.forwarding.answer import Answer, HookVerdict
from shared.forwarding.hook import Hook, Status, status_key, status_record
from shared.timestamps import now_ms
from shared.topic_names import HOOK_TOPIC
from stream_jobs.forward import at_most_once
from stream_jobs.forward.at_most_once import Begun
from stream_jobs.forward.bucket_state import Kept
from stream_jobs.forward.delivery import STAGE, Delivery, Try, dead_letter, hook_of, log_record
from stream_jobs.forward.hook_feed import HookFeed
from stream_jobs.forward.line import NEVER_MS, Line, Target, outcome
from stream_jobs.forward.sender import PATIENCE_S, LineRun, Sender
from stream_jobs.guards.lease import check_lease

_DELIVERIES_AT_ONCE = 2_000
_LOST = Answer(None, 0, "whoever sent it is gone, and nobody knows what became of it")
# beside the time that a request may take: for its answer's way
_FLIGHT_GRACE_MS = 5_000


class Batch:
    def __init__(
        self, bucket: int, feed: HookFeed, kept: Kept, its_sender: Sender, begun: Begun
    ) -> None:
        self.hooks = feed.look()
        self.waiting = kept.lines.read()
        self.sends = {hook.name: self.hooks.sends(hook) for hook in self.hooks.all()}
        self._bucket = bucket
        self._feed = feed
        self._deliveries, self._sent = kept.deliveries, kept.sent
        self._sender = its_sender
        self._begun = begun
        self._now_ms = now_ms()
        # servers as they were when the batch began, and those that it has found well since
        self._before: dict[str, Target] = {}
        self._is_back: set[str] = set()
        # hooks that get nothing of this batch
        self._left_out: set[str] = set()

    def begin(self) -> Iterator[Outgoing]:
        """What waits for a hook that is deleted is dropped; for one that has ended it goes to the
        dead letters."""
        self.waiting.go_on(self._now_ms)
        for key, line in list(self.waiting.lines.items()):
            hook = self._its_hook(hook_of(key), line.oldest_ms)
            if hook is not None and self.hooks.takes(hook):
                continue
            numbers = range(line.head, line.end)
            if hook is not None:
                for number, delivery in self._deliveries.get({key: numbers})[key]:
                    tries = line.tries if number == line.head else 0
                    yield dead_letter(delivery, tries, *self._why_not(hook))
            self._deliveries.remove(key, numbers)
            del self.waiting.lines[key]
        self.waiting.begin({hook.name: hook.revision for hook in self.hooks.all()})
        self._before = {
            hook.name: replace(self.waiting.target(hook.name))
            for hook in self.hooks.all()
            if hook.is_at_most_once
        }

    def _its_hook(self, name: str, arrived_ms: int) -> Hook | None:
        """None: it is deleted. Another one may have its name by now, and an URL of its own."""
        hook = self.hooks.get(name)
        return None if hook is None or arrived_ms < hook.made_ms else hook

    def _why_not(self, hook: Hook | None) -> tuple[str, str]:
        if hook is None:
            return "hook_gone", "the hook was deleted before this was sent on to it"
        status = self.hooks.status(hook)
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
            if not is_late or of.answer.verdict is HookVerdict.DONE:
                yield from self._settle(key, line, of)
        for key in list(self.waiting.lost(self._now_ms)):
            line = self.waiting.lines[key]
            event_id = self._first(key, line).event.id
            tried = line.tries + 1
            lost = Try(line.head, event_id, tried, self._now_ms, _LOST, line.flight_events)
            yield from self._settle(key, line, lost)

    def take(self, arrived: Sequence[Delivery]) -> Iterator[Outgoing]:
        once = [one for one in arrived if self._wants_once(one)]
        self._sent.load(one.whose for one in once)
        for delivery in arrived:
            hook = self._its_hook(delivery.hook, delivery.arrived_ms)
            if hook is None or not self.hooks.takes(hook):
                if delivery.is_again:
                    yield dead_letter(delivery, 0, *self._why_not(hook))
                continue
            if self._wants_once(delivery):
                if not self._sent.is_new(delivery.whose, delivery.event.id):
                    continue
                if not self._begun.may_be_sent(delivery.place):
                    yield log_record(delivery, self._not_again(0, delivery))
                    continue
            key = delivery.line(hook, self._bucket)
            line = self.waiting.lines.setdefault(key, Line())
            if not line.waiting:
                line.due_ms, line.oldest_ms = self._now_ms, delivery.arrived_ms
            self._deliveries.put(key, line.end, delivery)
            line.end += 1

    def _wants_once(self, delivery: Delivery) -> bool:
        hook = self.hooks.get(delivery.hook)
        return hook is not None and hook.is_at_most_once and not delivery.is_again

    def leave_out(self) -> Iterator[Outgoing]:
        """What this batch may have sent when it ran before. It sends nothing in its place: if it is
        to run a third time, it leaves out the same ones, and knows of no others."""
        self._left_out = {hook.name for hook in self.hooks.all() if hook.is_at_most_once}
        for key, line in self.waiting.lines.items():
            hook = self.hooks.get(hook_of(key))
            if hook is None or not hook.is_at_most_once:
                continue
            before = Target() if hook.name in self._is_back else self._before[hook.name]
            if before.due_ms > self._now_ms:
                continue  # nor was its server asked then
            ahead = 1 if before.is_down else at_most_once.ahead(hook)
            numbers = range(line.head, min(line.end, line.head + ahead))
            for number, delivery in self._deliveries.get({key: numbers})[key]:
                yield log_record(delivery, self._not_again(number, delivery))
            self._pass(key, line, len(numbers))

    def _not_again(self, number: int, delivery: Delivery) -> Try:
        answer = Answer(None, 0, at_most_once.NOT_AGAIN)
        return Try(number, delivery.event.id, 1, self._now_ms, answer)

    def send(self) -> Iterator[Outgoing]:
        sends = {**self.sends, **dict.fromkeys(self._left_out, False)}
        keys = self.waiting.to_try(self._now_ms, sends)
        keys = keys[:_DELIVERIES_AT_ONCE]
        ahead = max(4, _DELIVERIES_AT_ONCE // max(1, len(keys)))
        runs = [self._run(key, found) for key, found in self._fetched(keys, ahead).items()]
        check_lease(STAGE)
        if can_be_sent := [run for run in runs if not run.tried]:
            self._sender.send(can_be_sent)
        self._now_ms = now_ms()
        for run in runs:
            line = self.waiting.lines[run.key]
            for of in run.tried:
                yield from self._settle(run.key, line, of)
            if run.left:
                timeout_ms = int(run.hook.timeout_s * 1000)
                line.flight_ms = self._now_ms + timeout_ms + _FLIGHT_GRACE_MS
                line.flight_events = run.left
                self.waiting.target(run.hook.name).is_slow = True
            if run.not_before_ms:
                target = self.waiting.target(run.hook.name)
                target.due_ms = max(target.due_ms, run.not_before_ms)

    def end(self) -> int:
        """When to look again."""
        self.waiting.forget(hook.name for hook in self.hooks.all())
        look_ms = self.waiting.next_look_ms(self.sends)
        self.waiting.look_ms = self._now_ms if look_ms == NEVER_MS else max(look_ms, self._now_ms)
        return look_ms

    def _fetched(self, keys: Sequence[str], ahead: int) -> dict[str, list[tuple[int, Delivery]]]:
        wanted = {}
        for key in keys:
            line = self.waiting.lines[key]
            hook = self.hooks.get(hook_of(key))
            count = ahead if hook is None else max(ahead, 4 * hook.batch)
            if hook is not None and hook.is_at_most_once:
                is_down = self.waiting.target(hook.name).is_down
                count = 1 if is_down else min(count, at_most_once.ahead(hook))
            if line.tries:  # the first one alone tells whether it goes on
                count = 1
            wanted[key] = range(line.head, min(line.end, line.head + count))
        return self._deliveries.get(wanted)

    def _run(self, key: str, deliveries: Sequence[tuple[int, Delivery]]) -> LineRun:
        hook = self.hooks.get(hook_of(key))
        assert hook is not None
        tries = self.waiting.lines[key].tries
        run = LineRun(
            self._bucket, key, hook, [], tries, deliveries, self.waiting.target(hook.name).is_slow
        )
        try:
            if not hook.is_mail:  # no mail is signed
                run.keys = self._feed.keys(hook, self._now_ms)
        except ValueError as error:  # it must not keep others from getting theirs
            number, delivery = deliveries[0]
            answer = Answer(None, 0, f"not sent: {error}")
            run.tried.append(Try(number, delivery.event.id, tries + 1, self._now_ms, answer))
        return run

    def _settle(self, key: str, line: Line, of: Try) -> Iterator[Outgoing]:
        """What becomes of the first of a line, now that there is an answer, or that there will be
        none."""
        hook = self.hooks.get(hook_of(key))
        if hook is None:
            return
        policy, answer = hook.retries.policy, of.answer
        together = range(line.head, line.head + of.events)
        deliveries = [one for _, one in self._deliveries.get({key: together})[key]]
        for delivery in deliveries:
            yield log_record(delivery, of)
        delivery = deliveries[0]
        target = self.waiting.target(hook.name)
        if target.hear(answer, self._now_ms, int(PATIENCE_S * 1000)):
            self.waiting.hurry(hook.name, self._now_ms)
            self._is_back.add(hook.name)
        if answer.verdict is HookVerdict.FAILED:
            line.failed(delivery.event.id, answer, self._now_ms, policy)
        is_over = line.is_over(self._now_ms, policy)
        what = outcome(answer.verdict, is_over, target.fails_for_ms(self._now_ms), policy)
        if hook.is_at_most_once and what in ("waits", "given up"):
            what = "done"
        match what:
            case "done":
                self._pass(key, line, of.events)
            case "given up":
                yield dead_letter(delivery, line.tries, "not_delivered", answer.told())
                self._pass(key, line, 1)
            case "paused" | "ended":
                why = f"{answer.told()}, for the event {delivery.event.id}"
                yield from self._end(hook, what, why)

    def _first(self, key: str, line: Line) -> Delivery:
        ((_, delivery),) = self._deliveries.get({key: [line.head]})[key]
        return delivery

    def _pass(self, key: str, line: Line, count: int) -> None:
        self._deliveries.remove(key, range(line.head, line.head + count))
        line.passed(self._now_ms, count)

    def _end(self, hook: Hook, state: str, why: str) -> Iterator[Outgoing]:
        """It counts once it is on the topic: this batch may fail."""
        if self.sends[hook.name]:
            self.sends[hook.name] = False
            status = Status(state=state, why=why, at_ms=self._now_ms, revision=hook.revision)
            yield Outgoing(HOOK_TOPIC, status_key(hook.name), status_record(status), [])
