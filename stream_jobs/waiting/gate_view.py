"""What a process knows of whose payloads wait, and of how far enrich and retry are."""

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from clients.kafka.follow import LogFollower, whole_log
from clients.kafka.lag import unread
from clients.kafka.offsets import LogOffsets
from shared.consumer_groups import GATES, of_job
from shared.events.envelope import Position
from shared.flow_table import Flow
from shared.kafka_access import KafkaAccess
from shared.settings import JobSettings
from shared.topic_names import gate_topic, retry_topic
from stream_jobs.waiting.codec import gate_told
from stream_jobs.waiting.limits import Caps
from stream_jobs.waiting.line import Told
from stream_jobs.waiting.line_key import entity_of, said, tenant_of_line
from stream_jobs.waiting.protocol import Gates, Look, Ripeness

_ANSWER_S = 3.0
_MINUTE_MS = 60_000
_NAMED_MAX = 5
# as long as somebody is held: of a batch that lasts
_HEARS_EVERY_S = 0.1


class GateView:
    """enrich's side. Each call raises KafkaException where no broker answers."""

    def __init__(self, kafka: KafkaAccess) -> None:
        self._lane, self._gate = retry_topic("enrich"), gate_topic("enrich")
        self._passed = LogOffsets(kafka, of_job("retry"), [self._lane])
        self._log = LogFollower(kafka, GATES, [self._lane, self._gate])
        self._gates = Gates()
        self._batch = ""
        self._heard_s = 0.0

    def of_batch(self, batch: str) -> Gates:
        """For a task, or a round of it: all that those before it sent to the lane is there."""
        is_long_ago = time.monotonic() - self._heard_s > _HEARS_EVERY_S
        if batch != self._batch or (is_long_ago and self._gates.hold_any()):
            self.refresh()
            self._batch = batch
        return self._gates

    def refresh(self) -> Gates:
        passed = self._passed.positions()  # first (see Gates)
        self._gates.hear_passed({partition: at for (_, partition), at in passed.items()})
        self._log.go_on_from(passed)
        for message in self._log.to_the_end():
            key = (message.key() or b"").decode(errors="replace")
            if message.topic() == self._gate:
                value = message.value()
                if value is None:
                    self._gates.hear_gate(key, None)
                else:  # what is none of ours holds its key, too
                    told = gate_told(value)
                    payloads, full = (told.payloads, told.full) if told else (1, False)
                    unknown = told is None or told.is_for_a_row
                    self._gates.hear_gate(key, payloads, full=full, unknown=unknown)
            else:
                self._gates.hear_lane(message.partition() or 0, message.offset() or 0, key)
        self._gates.heard_all()
        self._heard_s = time.monotonic()
        return self._gates


class LaneView:
    """What waits, for those who look after it: the gates tell it of each entity."""

    def __init__(self, settings: JobSettings, flow: Flow) -> None:
        self._deadlines = {row.topic for row in flow.endpoints if not row.is_open}
        self._lane = LogOffsets(settings.kafka, of_job("retry"), [retry_topic("enrich")])
        self._log = LogFollower(settings.kafka, GATES, [gate_topic("enrich")])
        self._caps = Caps.of(settings)
        self._open: dict[bytes, Told] = {}

    def somebody_waits(self) -> bool:
        passed = self._lane.committed().offsets  # first: its gate is open before it is passed
        lane = self._lane.ranges()
        if not lane:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        if unread(passed, lane):
            return True
        self._refresh()
        return bool(self._open)

    def numbers(self, counts: Mapping[str, int]) -> dict[str, Any]:
        self._refresh()
        waiting = {key: told for key, told in self._open.items() if not self._is_on_purpose(told)}
        oldest_ms = min((told.since_ms for told in waiting.values()), default=None)
        full = self._full()
        age_s = 0.0 if oldest_ms is None else max(0.0, time.time() - oldest_ms / 1000)
        numbers = {
            "payloads": sum(told.payloads for told in waiting.values()),
            "entities": len({entity_of(key.decode(errors="replace")) for key in waiting}),
            "deadlines": len(self._open) - len(waiting),
            "oldest_s": round(age_s, 1),
            "at_cap": len(full),
            "full": full[:_NAMED_MAX],
            **counts,
        }
        return {"lanes": {retry_topic("enrich"): numbers}}

    def _is_on_purpose(self, told: Told) -> bool:
        """The deadline of an action, until its time is up."""
        return told.tries <= 1 and told.origin.split("/")[0] in self._deadlines

    def _full(self) -> list[str]:
        """Where a cap bites, and for whom."""
        now_ms = time.time_ns() // 1_000_000
        new: Counter[str] = Counter()
        entities: Counter[str] = Counter()
        payloads: Counter[str] = Counter()
        full: list[str] = []
        for key, told in self._open.items():
            name = key.decode(errors="replace")
            tenant = tenant_of_line(name)
            entities[tenant] += told.is_for_a_row
            payloads[tenant] += told.payloads
            new[tenant] += told.is_for_a_row and told.since_ms > now_ms - _MINUTE_MS
            if told.full:
                full.append(f"{said(name)}: as many payloads as one entity may have wait")
        for number, most, what in (
            (entities, self._caps.entities, "entities wait for master data"),
            (payloads, self._caps.payloads, "payloads wait"),
            (new, self._caps.new_a_minute, "ids began to wait within a minute"),
        ):
            tenants = [f"tenant {one!r}: {n} {what}" for one, n in number.items() if n >= most]
            full = [*tenants, *full]
        return full

    def _refresh(self) -> None:
        self._log.go_on_from({})
        for message in self._log.to_the_end(_ANSWER_S):
            key = message.key() or b""
            if told := gate_told(message.value()):
                self._open[key] = told
            else:
                self._open.pop(key, None)


def first_needed(kafka: KafkaAccess) -> dict[int, int]:
    """Where the first record stands in each partition of the lane that is not done with."""
    gates = whole_log(kafka, GATES, [gate_topic("enrich")])
    latest = {message.key(): message.value() for message in gates}
    needed: dict[int, int] = {}
    for told in filter(None, map(gate_told, latest.values())):
        for partition, offset in told.needs.items():
            needed[int(partition)] = min(offset, needed.get(int(partition), offset))
    return needed


class RipenessView:
    """retry's side."""

    def __init__(self, kafka: KafkaAccess, flow: Flow) -> None:
        lane = [retry_topic("enrich")]
        enrich = flow.job("enrich")
        self._enriched = LogOffsets(kafka, of_job("enrich"), enrich.ignited_by)
        self._passed = LogOffsets(kafka, of_job("retry"), lane)
        self._lane = LogFollower(kafka, GATES, lane)
        self._ripeness = Ripeness()

    def refresh(self) -> None:
        passed = {partition: at for (_, partition), at in self._passed.positions().items()}
        enriched = self._enriched.positions()  # before the ends (see Ripeness)
        ends = {partition: end for (_, partition), end in self._lane.ends().items()}
        self._ripeness.hear(Look(enriched, ends), passed)

    def is_ripe(self, place: Position) -> bool:
        return self._ripeness.has_reached(place)
