"""What makes forward run a batch when no event does: a time that is due, or a hook that is changed.

Without hooks there is no query at all, and no checkpoint: the first hook begins with what comes
from then on.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from clients.kafka.connect import writer
from clients.kafka.follow import LogFollower
from clients.kafka.records import Offsets
from shared.consumer_groups import HOOKS
from shared.errors import CheckpointsAwayError
from shared.flow_table import Flow
from shared.forwarding.hook import Hooks
from shared.settings import JobSettings
from shared.topic_names import HOOK_TOPIC, gate_topic, wake_topic
from stream_jobs.forward import beginning, job
from stream_jobs.forward.delivery import STAGE, read_gate
from stream_jobs.forward.line import NEVER_MS
from stream_jobs.guards.checkpoint_folder import checkpoint_of, remove
from stream_jobs.supervision.driver_task import DriverTask

_LOOK_EVERY_S = 1.0
_ANSWER_S = 5.0
# a wake that got lost must not have all sleep for ever
_WAKE_AT_LEAST_EVERY_S = 60.0
_LATEST_S = 2.0
NO_HOOK = "there is no webhook: ./headrace hooks add"


class HookWatch(DriverTask):
    def __init__(self, settings: JobSettings, flow: Flow) -> None:
        self._settings = settings
        self._flow = flow
        self._log = LogFollower(settings.kafka, HOOKS, [HOOK_TOPIC, gate_topic(STAGE)])
        options = {
            "enable.idempotence": False,  # a wake that is written twice does no harm
            "message.timeout.ms": int(_ANSWER_S * 1000),
        }
        self._producer = writer(settings.kafka, options)
        self._hooks = Hooks()
        self._gates: dict[bytes, dict[str, Any]] = {}
        self._buckets = {str(bucket).encode() for bucket in job.buckets(settings)}
        self._has_looked = self._is_changed = self._all_have_told = False
        self._is_removed = False  # its checkpoint
        self._look_at_s = self._wake_at_s = 0.0
        self._look_ms = 0

    def rests(self) -> str:
        try:
            self._look()
        except KafkaException:
            if not self._has_looked:
                return "it is not known yet whether there are webhooks"
        return "" if self._hooks.all() or self._hooks.wrong else NO_HOOK

    def begin_rest(self) -> None:
        if self._has_looked:
            if not self._is_removed:
                with suppress(CheckpointsAwayError, OSError):  # it is asked again
                    remove(checkpoint_of(self._settings, STAGE))
                    self._is_removed = True
            self._clear([*self._gates])

    def start(self) -> Offsets | None:
        self._look_ms, self._all_have_told, self._is_removed = 0, False, False
        return beginning.start(self._settings, self._flow)

    def hear(self, observed: Mapping[str, int | None]) -> None:
        told = observed[job.LOOK_MS]
        look_ms = NEVER_MS if told is None else told
        # where all have told of their next look, none that was told before counts
        is_all = observed[job.LOOKS] == len(self._buckets)
        self._look_ms = look_ms if is_all else min(look_ms, self._look_ms)
        self._all_have_told |= is_all

    def step(self) -> None:
        if self._all_have_told:  # what others had is theirs by now
            self._clear([key for key in self._gates if key not in self._buckets])
        now_s = time.monotonic()
        is_due = time.time_ns() // 1_000_000 >= self._look_ms
        if self._is_changed or is_due or (self._gates and now_s >= self._wake_at_s):
            self._wake()

    def numbers(self) -> Mapping[str, Any]:
        self._look()  # nobody else does while it pauses
        waiting: Counter[str] = Counter()
        for gate in self._gates.values():
            waiting.update(gate["waiting"])
        stopped = {}
        for hook in self._hooks.all():
            if (status := self._hooks.status(hook)) is not None:
                stopped[hook.name] = f"{status.state}: {status.why}"
        stopped |= {name: f"cannot be read: {why}" for name, why in self._hooks.wrong.items()}
        oldest_ms = min((gate["oldest_ms"] for gate in self._gates.values()), default=None)
        return {
            "hooks": {
                "count": len(self._hooks.all()),
                "waiting": sum(waiting.values()),
                "oldest_ms": oldest_ms,
                "stopped": stopped,
            }
        }

    def _look(self) -> None:
        now_s = time.monotonic()
        if now_s < self._look_at_s:
            return
        self._look_at_s = now_s + _LOOK_EVERY_S
        self._log.go_on_from({})
        for message in self._log.to_the_end(_LATEST_S):
            key, value = message.key() or b"", message.value()
            if message.topic() == HOOK_TOPIC:
                self._hooks.hear(key, value)
                self._is_changed = True
            elif value is None:
                self._gates.pop(key, None)
            else:
                self._gates[key] = read_gate(value)
        self._has_looked = True

    def _clear(self, gates: Sequence[bytes]) -> None:
        """One that stays makes a job without a checkpoint begin too early, and no more than that:
        nobody waits for the answer."""
        for key in gates:
            self._producer.produce(gate_topic(STAGE), None, key)
            del self._gates[key]
        self._producer.poll(0)

    def _wake(self) -> None:
        answers: list[KafkaError | None] = []
        self._producer.produce(
            wake_topic(STAGE), b"{}", on_delivery=lambda error, _: answers.append(error)
        )
        self._producer.flush(_ANSWER_S + 1)
        if answers != [None]:
            raise KafkaException(answers[0] if answers else KafkaError(KafkaError._TIMED_OUT))
        self._is_changed = False
        self._look_ms = NEVER_MS  # until a batch says when
        self._wake_at_s = time.monotonic() + _WAKE_AT_LEAST_EVERY_S
