"""The outbox in PostgreSQL -> its topics. A row leaves the outbox when the broker has it.

A crash between the two sends the row again under the same id. One relay works, the others wait.
Order holds per key: a topic that refuses a record is held back until it takes that record.
"""

import faulthandler
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import orjson

from clients.kafka.write import AckedWriter, DeadProducerError
from clients.postgres import store
from clients.postgres.outbox import Outbox, OutboxRow
from shared.errors import StoreAwayError
from shared.flow import load_flow
from shared.settings import JobSettings
from shared.timestamps import now_ms
from shared.topic_names import RELAY_HEARTBEAT_KEY
from stream_jobs.guards.breaker import Breaker
from stream_jobs.supervision.status import StatusReporter
from stream_jobs.traces import follower as traces

_log = logging.getLogger(__name__)
_BATCH_ROWS_MAX = 5_000
_POLL_S = 0.5
_REPORT_EVERY_S = 2.0
_KAFKA_SLOW_S = 2.0
_HOLD_S = 5.0
_STILL_S = 60.0


class Hold(NamedTuple):
    """A topic that refused a record."""

    retry_at_s: float
    reason: str


def run(settings: JobSettings, stop: threading.Event) -> None:
    """Until `stop` is set, whatever happens to PostgreSQL and Kafka meanwhile."""
    status = StatusReporter(settings, "relay")
    # whoever starts relays cannot see one that stands still in a call of a library: it ends, with
    # what each thread does, if it is not heard of for longer than a store may take for an answer
    still_s = 3 * settings.slow_after_s + _STILL_S
    is_alive = partial(faulthandler.dump_traceback_later, still_s, exit=True)
    relay = Relay(settings, stop, status, is_alive)
    traces.start(settings, stop, lambda: relay.leads)
    while not stop.is_set():
        relay.is_alive()
        pause_s = _POLL_S
        try:
            relay.work()
        except StoreAwayError as away:
            pause_s = relay.pause("postgres", str(away))
            relay.say("waiting", f"PostgreSQL: {away}")
        except DeadProducerError as dead:
            pause_s = relay.pause("kafka", str(dead))
            relay.say("waiting", f"Kafka: {dead}")
            relay.renew_producer()
        stop.wait(pause_s)
    faulthandler.cancel_dump_traceback_later()
    if relay.leads:
        status.report("stopped")
        status.flush()


class Relay:
    def __init__(
        self,
        settings: JobSettings,
        stop: threading.Event,
        status: StatusReporter,
        is_alive: Callable[[], None] = lambda: None,
    ) -> None:
        """`is_alive` is called wherever the relay goes on."""
        self.is_alive = is_alive
        self._settings = settings
        self._stop = stop
        self._status = status
        flow = load_flow(settings.flow)
        self._master_topics = [table.topic for table in flow.published_tables]
        self._at_most_once = flow.at_most_once_topics
        self._as_of_ms: int | None = None
        self.leads = False
        self._held: dict[str, Hold] = {}
        self._breakers = {"postgres": Breaker(), "kafka": Breaker()}
        self._sent = 0
        self._said = ("", "")
        self._said_at_s = time.monotonic()
        self.renew_producer()

    def renew_producer(self) -> None:
        options = {"compression.type": self._settings.compression}
        self._producer = AckedWriter(self._settings.kafka, options)

    def work(self) -> None:
        """Until the stop, or until an error ends the connection."""
        url = self._settings.postgres_url.get_secret_value()
        with store.connect(url, "relay", self._settings.slow_after_s) as connection:
            self._breakers["postgres"] = self._breakers["postgres"].answered()
            outbox = Outbox(connection, self._settings.slow_after_s)
            self.leads = self._lead(outbox)
            if not self.leads:
                return
            outbox.listen()
            while not self._stop.is_set():
                self.is_alive()
                if not self.send_batch(outbox):
                    outbox.wait(_POLL_S)
                self._breakers["postgres"] = Breaker()
                self._report(outbox)

    def pause(self, which: str, reason: str) -> float:
        """How long, now that this store is away."""
        self._breakers[which] = self._breakers[which].failed(now_ms(), reason)
        return self._breakers[which].pause_s

    def _lead(self, outbox: Outbox) -> bool:
        while not outbox.take_lead():
            self.is_alive()
            # no report: the status topic has the one who works
            self._log_change("waiting", "another relay is at work")
            if self._stop.wait(_POLL_S):
                return False
        return True

    def send_batch(self, outbox: Outbox) -> bool:
        """False where there was nothing to send."""
        rows = self._next_rows(outbox)
        if not rows:
            return False
        removed = {row.seq for row in rows if row.topic in self._at_most_once}
        if removed:
            outbox.remove(sorted(removed))  # before the broker hears of them: never twice
        asked_s = time.monotonic()
        try:
            refused = self._producer.send(rows, lambda: self._keep_waiting(asked_s))
        except DeadProducerError:
            self._tell_lost(len(removed), "its producer is dead")
            raise
        refusals = {rows[number].seq: why for number, why in refused.items()}
        self._kafka_has_answered()
        if lost := removed & refusals.keys():
            self._tell_lost(len(lost), refusals[min(lost)])
        if self._stop.is_set() and refusals:
            return False  # whoever comes next sends them again, under the same ids
        for topic in {row.topic for row in rows}:
            self._held.pop(topic, None)
        for row in rows:
            if row.seq in refusals and row.topic not in self._held:
                self._held[row.topic] = Hold(time.monotonic() + _HOLD_S, refusals[row.seq])
        sent = removable([row for row in rows if row.seq not in removed], set(refusals))
        outbox.remove(sent)
        self._sent += len(sent) + len(removed - refusals.keys())
        return True

    def _tell_lost(self, rows: int, reason: str) -> None:
        if rows:
            _log.warning("%d messages of at-most-once topics may be lost: %s", rows, reason)

    def _next_rows(self, outbox: Outbox) -> list[OutboxRow]:
        """A topic that was held back proves itself with its oldest record alone."""
        now_s = time.monotonic()
        for topic in [topic for topic, hold in self._held.items() if hold.retry_at_s <= now_s]:
            rows = outbox.first_of(topic)
            if rows:
                return rows
            del self._held[topic]
        return outbox.pending(_BATCH_ROWS_MAX, except_topics=list(self._held))

    def _keep_waiting(self, asked_s: float) -> bool:
        self.is_alive()
        waited_s = time.monotonic() - asked_s
        if waited_s > self._settings.slow_after_s and not self._breakers["kafka"].is_open:
            # nothing to probe with: the client goes on trying, and no other row is touched
            self.pause("kafka", f"no acknowledgement for {waited_s:.0f} s")
        if waited_s > _KAFKA_SLOW_S:
            self.say("waiting", "Kafka does not acknowledge")
        return not self._stop.is_set()

    def _kafka_has_answered(self) -> None:
        if not self._stop.is_set():
            self._breakers["kafka"] = Breaker()

    def _report(self, outbox: Outbox) -> None:
        state = "waiting" if self._held else "running"
        detail = "; ".join(f"{topic}: {hold.reason}" for topic, hold in sorted(self._held.items()))
        if self._is_news(state, detail):
            asked_ms = now_ms()
            depth = outbox.depth()
            self._beat(asked_ms - round(depth.oldest_s * 1000))
            elapsed_s = time.monotonic() - self._said_at_s
            self.say(
                state,
                detail,
                lag_records=depth.records,
                lag_s=round(depth.oldest_s, 3),
                rows_per_s=round(self._sent / max(elapsed_s, 0.1), 1),
            )
            self._sent = 0

    def _beat(self, as_of_ms: int) -> None:
        """Says on each master topic up to when it holds what PostgreSQL has committed."""
        value = orjson.dumps({"as_of_ms": as_of_ms})
        key = RELAY_HEARTBEAT_KEY.encode()
        beats = [
            OutboxRow(seq, topic, key, value, []) for seq, topic in enumerate(self._master_topics)
        ]
        asked_s = time.monotonic()
        if not self._producer.send(beats, lambda: self._keep_waiting(asked_s)):
            self._as_of_ms = as_of_ms

    def say(self, state: str, detail: str, **numbers: float) -> None:
        if self._is_news(state, detail):
            self._log_change(state, detail)
            breakers = {name: breaker.told() for name, breaker in self._breakers.items()}
            told = {**numbers, "breakers": breakers, "master_as_of_ms": self._as_of_ms}
            self._status.report(state, detail, **told)
            self._said_at_s = time.monotonic()

    def _is_news(self, state: str, detail: str) -> bool:
        return (
            self._said != (state, detail) or time.monotonic() - self._said_at_s >= _REPORT_EVERY_S
        )

    def _log_change(self, state: str, detail: str) -> None:
        if state != self._said[0]:
            _log.info("relay is %s%s", state, f": {detail}" if detail else "")
        self._said = (state, detail)


def removable(rows: list[OutboxRow], refused: set[int]) -> list[int]:
    """What was taken, but for what came after a refusal in the same topic: that goes again, so
    that the last record of a key is the newest."""
    done: list[int] = []
    held: set[str] = set()
    for row in rows:
        if row.seq in refused:
            held.add(row.topic)
        elif row.topic not in held:
            done.append(row.seq)
    return done
