"""Last known master data, followed from its compacted topics. One a worker process.

It loads whole before the first look-up, then takes in changes between batches without waiting.
"""

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import orjson
from confluent_kafka import KafkaException, Message

from clients.kafka.follow import LogFollower
from shared.consumer_groups import MASTER_VIEW
from shared.errors import StaleMasterDataError
from shared.kafka_access import KafkaAccess
from shared.master_data.timed_key import Times
from shared.model import Fields
from shared.timestamps import is_time_ms
from shared.topic_names import RELAY_HEARTBEAT_KEY, master_topic

_LOAD_DEADLINE_S = 60.0


class MasterView:
    def __init__(
        self,
        kafka: KafkaAccess,
        tables: tuple[str, ...],
        age_max_s: float,
        timed: frozenset[str] = frozenset(),
    ) -> None:
        """`timed`: those of them whose rows count from a time on."""
        self._age_max_s = age_max_s
        self._table_by_topic = {master_topic(table): table for table in tables}
        # values stay bytes until they are asked for: a million parsed rows would not fit
        self._rows: dict[str, dict[str, bytes]] = {table: {} for table in tables}
        self._times = {table: Times() for table in timed}
        self._as_of_ms = dict.fromkeys(tables, 0)
        self._log = LogFollower(kafka, MASTER_VIEW, self._table_by_topic)
        if tables:
            self._load()

    def find(self, table: str, key: str) -> Fields | None:
        # what is no row is as good as none: the payload waits for a better one
        row = _json(self._rows[table].get(key))
        return row if isinstance(row, dict) else None

    def find_at(self, table: str, key: str, time_ms: int) -> Fields | None:
        if table not in self._times:
            raise LookupError(f"table {table!r} has no valid_from: look its rows up by find")
        kept = self._times[table].kept_at(key, time_ms)
        return None if kept is None else self.find(table, kept)

    def refresh(self) -> None:
        """Takes in what has come since; raises where what is known has grown too old."""
        with suppress(KafkaException):  # what is known is good until it is too old
            while self._take_in(self._log.take()):
                pass
        for table, as_of_ms in self._as_of_ms.items():
            age_s = time.time() - as_of_ms / 1000
            if age_s > self._age_max_s:
                raise StaleMasterDataError(
                    f"master data of {table!r} was last confirmed "
                    f"{f'{age_s:.0f} s ago' if as_of_ms else 'never'}, "
                    f"HEADRACE_MASTER_AGE_MAX_S allows {self._age_max_s:.0f}"
                )

    def as_of_ms(self) -> dict[str, int]:
        """Up to when all of each table is known."""
        return {**self._as_of_ms}

    def catch_up(self) -> None:
        """Takes in all that was written until now: whoever waits for a row is told but once that it
        has come, and must not look at less than that."""
        try:
            self._take_in(self._log.to_the_end(_LOAD_DEADLINE_S))
        except KafkaException as error:
            raise StaleMasterDataError(f"Kafka is away: {error.args[0].str()}") from error

    def _load(self) -> None:
        try:
            self._log.go_on_from({})
        except KafkaException as error:
            raise StaleMasterDataError(f"Kafka is away: {error.args[0].str()}") from error
        if absent := self._table_by_topic.keys() - {topic for topic, _ in self._log.next}:
            raise StaleMasterDataError(f"topic {min(absent)} is missing: make the flow's topics")
        self.catch_up()

    def _take_in(self, messages: Iterable[Message]) -> int:
        count = 0
        for count, message in enumerate(messages, 1):  # noqa: B007
            table = self._table_by_topic[str(message.topic())]
            key, value = (message.key() or b"").decode(errors="replace"), message.value()
            if key == RELAY_HEARTBEAT_KEY:
                if (as_of_ms := confirmed_ms(value)) is not None:
                    self._as_of_ms[table] = as_of_ms
                continue
            if table in self._times:
                self._times[table].note(key, is_there=value is not None)
            if value is None:
                self._rows[table].pop(key, None)
            else:
                self._rows[table][key] = value
        return count


def confirmed_ms(heartbeat: bytes | None) -> int | None:
    """Up to when a topic has all, as the relay says there."""
    beat = _json(heartbeat)
    as_of_ms = beat.get("as_of_ms") if isinstance(beat, dict) else None
    return as_of_ms if is_time_ms(as_of_ms) else None


def _json(raw: bytes | None) -> Any:
    """None where it is none. A worker that died of it would meet it again at its next load."""
    try:
        return None if raw is None else orjson.loads(raw)
    except ValueError:
        return None
