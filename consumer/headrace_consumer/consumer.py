"""The loop: takes records, gives them to the handler, and commits how far it is."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from .dead_letters import DeadLetters
from .driver import (
    NO_LONGER_OURS,
    ConsumerError,
    commit,
    is_hopeless,
    is_incremental,
    places_of,
    record_of,
    starts_of,
    told_by_signals,
)
from .events import Event, Reader, Record, Unreadable, Upcast
from .lines import Line, Lines, Partition
from .repeats import RepeatFilter
from .retry import Refused, Retry

AT_LEAST_ONCE: Literal["at_least_once"] = "at_least_once"
AT_MOST_ONCE: Literal["at_most_once"] = "at_most_once"

_log = logging.getLogger(__package__)
_POLL_S = 0.2
_COMMITTED_EVERY_S = 1.0
_RECORDS_AT_ONCE = 100
# then Kafka is asked again, so that a slow handler does not look like one that has died
_SERVED_FOR_S = 5.0


class Consumer:
    """Gives each event of some topics to `handle`, those of one key in their order.

    `deliver="at_least_once"` commits what was handled: after a kill some events come again. A
    handler that fails is tried again as `retry` says; meanwhile its partition waits, and the others
    go on. `deliver="at_most_once"` commits before it handles: a kill loses up to 100 events, and a
    handler that fails is not tried again.

    What is unreadable, refused or given up goes to `dead_letters`, a topic that is made where it
    does not exist. With None nothing is given up: the first such record ends `run`.
    """

    def __init__(
        self,
        handle: Callable[[Event[Any]], object],
        *,
        topics: Sequence[str],
        group: str,
        bootstrap: str,
        deliver: Literal["at_least_once", "at_most_once"] = AT_LEAST_ONCE,
        types: Mapping[str, Any] | None = None,
        upcast: Upcast | None = None,
        repeats: RepeatFilter | None = None,
        retry: Retry | None = None,
        dead_letters: str | None = "",
        kafka: Mapping[str, Any] | None = None,
    ) -> None:
        """`types` and `upcast`: see `Reader`. `repeats`: a `RepeatFilter`, which `run` closes in
        the end; without one, repeats are known for as long as the process lives. `dead_letters`:
        the topic's name, by default `dlq.<group>.v1`. `kafka`: further settings of librdkafka, such
        as those of TLS."""
        if deliver not in (AT_LEAST_ONCE, AT_MOST_ONCE):
            raise ValueError(f"deliver is {deliver!r}: say {AT_LEAST_ONCE!r} or {AT_MOST_ONCE!r}")
        if isinstance(topics, str) or not topics:
            raise ValueError(f"topics is {topics!r}: name one or more, in a list")
        if retry is not None and deliver == AT_MOST_ONCE:
            raise ValueError("at_most_once tries nothing again: leave out `retry`")
        self._handle = handle
        self._topics = [*topics]
        self._group = group
        self._commits_first = deliver == AT_MOST_ONCE
        self._reader = Reader(types, upcast)
        self._repeats = repeats or RepeatFilter()
        self._retry = retry or Retry(attempts_max=1 if self._commits_first else 5)
        self._letters_topic = f"dlq.{group}.v1" if dead_letters == "" else dead_letters
        self._letters: DeadLetters | None = None
        self._kafka = {**(kafka or {}), "bootstrap.servers": bootstrap}
        self._reset = str(self._kafka.get("auto.offset.reset", "earliest"))
        self._client: Client
        self._stop = threading.Event()
        self._new, self._lines = Lines(), Lines()
        self._done: dict[Partition, int] = {}  # offsets that are to be committed
        self._paused: set[Partition] = set()  # also while others have them: Kafka's client keeps it
        self._committed_s = 0.0
        # handled, repeats, passed_over, tried_again, dead_letters
        self.counts: Counter[str] = Counter()

    def stop(self) -> None:
        """From any thread: `run` returns once the event in work is done."""
        self._stop.set()

    def run(self) -> None:
        """Until `stop`, or SIGTERM or SIGINT where this is the main thread."""
        if self._letters_topic is not None:
            self._letters = DeadLetters(self._letters_topic, self._group, self._kafka)
        self._client = Client(
            {
                **self._kafka,
                "auto.offset.reset": self._reset,
                "group.id": self._group,
                "enable.auto.commit": False,
            }
        )
        with told_by_signals(self._stop):
            try:
                if self._letters is not None:
                    self._letters.begin(self._stop.is_set)
                self._client.subscribe(
                    self._topics,
                    on_assign=self._on_assign,
                    on_revoke=self._on_revoke,
                    on_lost=self._on_lost,
                )
                while not self._stop.is_set():
                    self._take()
                    self._serve()
                    self._pause()
                    if time.monotonic() - self._committed_s > _COMMITTED_EVERY_S:
                        self._commit([*self._done])
            finally:
                self._commit([*self._done])
                self._client.close()
                self._repeats.close()

    def _take(self) -> None:
        """One poll after the other: what Kafka tells of partitions comes in between."""
        wait_s = self._lines.wait_s(time.monotonic(), _POLL_S)
        for _ in range(_RECORDS_AT_ONCE):
            message = self._client.poll(wait_s)
            if message is None:
                break
            wait_s = 0.0
            if error := message.error():
                self._judge(error)
            else:
                self._new.add(record_of(message))
        if not self._commits_first or self._commit_new():
            self._lines.take_all(self._new)

    def _judge(self, error: KafkaError) -> None:
        if is_hopeless(error):
            raise ConsumerError(f"Kafka refuses to be read by group {self._group}: {error.str()}")
        _log.warning("Kafka: %s", error.str())

    def _commit_new(self) -> bool:
        """False: not all is certain to be ours. Whoever reads it next reads all of it."""
        while ends := self._new.ends():
            try:
                commit(self._client, ends)
                return True
            except KafkaException as error:
                is_ours = error.args[0].code() not in NO_LONGER_OURS
                if is_ours and not self._stop.is_set():
                    _log.warning("not committed yet: %s", error)
                    time.sleep(_POLL_S)
                    continue
                for place in places_of(self._new.firsts()):
                    self._read_again(place)
                self._new = Lines()
        return False

    def _read_again(self, place: TopicPartition) -> None:
        try:
            self._client.seek(place)
        except KafkaException as error:  # it is somebody else's already
            _log.info("%s/%s is not ours: %s", place.topic, place.partition, error)

    def _serve(self) -> None:
        """At most once: what was committed is handled, also where the end is near."""
        began_s = time.monotonic()
        for partition, line in [*self._lines.unfinished()]:
            while line.records and line.due_s <= time.monotonic():
                if self._stop.is_set() and not self._commits_first:
                    return
                record = line.records[0]
                if not self._settle(record, line):
                    break
                line.done()
                self._done[partition] = record.position.offset + 1
                if time.monotonic() - began_s > _SERVED_FOR_S:
                    return

    def _settle(self, record: Record, line: Line) -> bool:
        """False: it is to be tried again."""
        try:
            event = self._reader.read(record)
        except Unreadable as unreadable:
            return self._bury(record, unreadable.reason, unreadable.detail, 0)
        if event is None:
            self.counts["passed_over"] += 1
            return True
        if self._repeats.knows(self._group, event):
            self.counts["repeats"] += 1
            return True
        if self._commits_first:
            self._repeats.add(self._group, event)
        line.attempts += 1
        try:
            self._handle(event)
        except Refused as refused:
            reason, detail, pause_s = "refused", str(refused), None
        except Exception as error:  # a user's handler may fail in any way
            reason, detail = "handler_failed", f"{type(error).__name__}: {error}"
            pause_s = self._retry.pause_s(line.attempts)
        else:
            self._repeats.add(self._group, event)
            self.counts["handled"] += 1
            return True
        if pause_s is not None:
            self.counts["tried_again"] += 1
            _log.warning("%s at %s, again in %.1f s", detail, record.position, pause_s)
            line.due_s = time.monotonic() + pause_s
            return False
        if not self._bury(record, reason, detail, line.attempts):
            return False
        self._repeats.add(self._group, event)
        return True

    def _bury(self, record: Record, reason: str, detail: str, attempts: int) -> bool:
        """False: Kafka did not take it before the end."""
        told = f"{record.position}: {reason}: {detail}"
        if self._letters is None:
            raise ConsumerError(f"{told}. Mend the handler, or name a topic for dead letters")
        try:
            sent = self._letters.send(record, reason, detail, attempts, self._stop.is_set)
        except KafkaException as error:
            raise ConsumerError(
                f"{told}. It is not passed over, but {self._letters.topic} refuses it: {error}"
            ) from error
        if sent:
            self.counts["dead_letters"] += 1
            _log.warning("to %s: %s", self._letters.topic, told)
        return sent

    def _pause(self) -> None:
        """Reads no more of what is not done yet, so that it stays little and in order. Nor is
        anything read that would be committed, and lost with a kill."""
        held = {partition for partition, _ in self._lines.unfinished()}
        if held and self._commits_first:
            held = {(one.topic, one.partition) for one in self._client.assignment()}
        if new := held - self._paused:
            self._client.pause([TopicPartition(*partition) for partition in new])
        if over := self._paused - held:
            self._client.resume([TopicPartition(*partition) for partition in over])
        self._paused = held

    def _commit(self, partitions: Sequence[Partition]) -> None:
        self._committed_s = time.monotonic()
        done = {one: self._done.pop(one) for one in partitions if one in self._done}
        if not done or self._commits_first:
            return
        try:
            commit(self._client, done)
        except KafkaException as error:
            _log.warning("not committed, so it may come again: %s", error)
            if error.args[0].code() not in NO_LONGER_OURS:
                self._done = {**done, **self._done}

    def _on_assign(self, client: Client, partitions: list[TopicPartition]) -> None:
        starts = partitions
        while not self._stop.is_set():
            try:
                starts = starts_of(client, partitions, self._reset)
                break
            except KafkaException as error:
                self._judge(error.args[0])
                self._stop.wait(_POLL_S)
        if is_incremental(self._kafka):
            client.incremental_assign(starts)
        else:
            client.assign(starts)

    def _on_revoke(self, _client: Client, partitions: list[TopicPartition]) -> None:
        self._commit([(one.topic, one.partition) for one in partitions])
        self._on_lost(_client, partitions)

    def _on_lost(self, _client: Client, partitions: list[TopicPartition]) -> None:
        """What was committed before it is handled nobody else will handle."""
        for one in partitions:
            partition = one.topic, one.partition
            self._done.pop(partition, None)
            self._new.drop(partition)
            if not self._commits_first:
                self._lines.drop(partition)
