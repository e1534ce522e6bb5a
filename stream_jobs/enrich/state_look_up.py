"""Last published states of entities and aggregates, followed from their compacted topics. One a
worker process, which loads them whole.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from confluent_kafka import KafkaException, Message

from clients.kafka.follow import LogFollower
from shared.consumer_groups import MASTER_VIEW
from shared.errors import StaleMasterDataError
from shared.kafka_access import KafkaAccess

_LOAD_DEADLINE_S = 60.0


class StateLookUp:
    def __init__(self, kafka: KafkaAccess, topics: Mapping[str, str], *, at_once: bool) -> None:
        """`topics`: by entity or aggregate. `at_once`: they are loaded before the first payload, or
        else when one asks for them."""
        self._kafka = kafka
        self._topics = topics
        # values stay bytes until they are asked for: a million parsed states would not fit
        self._snapshots: dict[str, dict[str, bytes]] = {topic: {} for topic in topics.values()}
        self._at_once = at_once
        self._log: LogFollower | None = None

    def find(self, name: str, key: str) -> bytes | None:
        if self._log is None:
            self.catch_up()
        return self._snapshots[self._topics[name]].get(key)

    def refresh(self) -> None:
        """Takes in what has come since, without waiting. States are old by nature: nobody says how
        old they are, so they are used as they are."""
        if self._log is None:
            if self._at_once:
                self.catch_up()
            return
        with suppress(KafkaException):
            while self._take_in(self._log.take()):
                pass

    def catch_up(self) -> None:
        """Takes in all that was written until now."""
        if not self._topics:
            return
        try:
            log = self._log or LogFollower(self._kafka, MASTER_VIEW, self._snapshots)
            log.go_on_from({})
            self._take_in(log.to_the_end(_LOAD_DEADLINE_S))
        except KafkaException as error:
            raise StaleMasterDataError(f"Kafka is away: {error.args[0].str()}") from error
        self._log = log

    def _take_in(self, messages: Iterable[Message]) -> int:
        count = 0
        for count, message in enumerate(messages, 1):  # noqa: B007
            snapshots = self._snapshots[str(message.topic())]
            key, value = (message.key() or b"").decode(errors="replace"), message.value()
            if value is None:
                snapshots.pop(key, None)
            else:
                snapshots[key] = value
        return count
