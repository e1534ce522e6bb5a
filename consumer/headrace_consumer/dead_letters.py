"""What could not be handled: its bytes and headers as they came, with the reason and its place."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from .driver import ConsumerError
from .events import Record

REASON, DETAIL, ORIGIN = "dead_reason", "dead_detail", "dead_origin"
GROUP, ATTEMPTS = "dead_group", "dead_attempts"

_log = logging.getLogger(__package__)
_ANSWER_S = 2.0
_MADE_WITHIN_S = 20.0
_POLL_S = 0.2
_DETAIL_CHARACTERS_MAX = 2_000
# the largest record of Headrace has 8 MiB, and a letter has some headers more
_BYTES_MAX = 9 * 1024 * 1024


class DeadLetters:
    """On one topic, which is made where it does not exist; records of one key in their order."""

    def __init__(self, topic: str, group: str, kafka: Mapping[str, Any]) -> None:
        self.topic = topic
        self._group = group
        self._kafka = kafka
        self._refused: KafkaError | None = None
        self._producer = Producer(
            {
                **kafka,
                "acks": "all",
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "message.max.bytes": _BYTES_MAX,
                "message.timeout.ms": 0,  # as long as it takes
            }
        )

    def begin(self, is_over: Callable[[], bool]) -> None:
        """Returns once the topic is there, or it `is_over`."""
        while not is_over():
            try:
                known = self._producer.list_topics(timeout=_ANSWER_S).topics
            except KafkaException as error:
                _log.warning("Kafka does not answer yet: %s", error.args[0].str())
                continue
            if self.topic not in known:
                _make(self.topic, self._kafka)
            return

    def send(
        self,
        record: Record,
        reason: str,
        detail: str,
        attempts: int,
        is_over: Callable[[], bool],
    ) -> bool:
        """Returns once all in-sync replicas have it; False: it `is_over` before that."""
        headers: list[tuple[str, str | bytes | None]] = [
            *record.headers,
            (REASON, reason.encode()),
            (DETAIL, detail[:_DETAIL_CHARACTERS_MAX].encode(errors="replace")),
            (ORIGIN, str(record.position).encode()),
            (GROUP, self._group.encode()),
            (ATTEMPTS, str(attempts).encode()),
        ]
        self._refused = None
        self._producer.produce(
            self.topic, record.value, record.key, headers=headers, on_delivery=self._note
        )
        while self._producer.flush(_POLL_S):
            if is_over():
                self._producer.purge()
                return False
        if self._refused is not None:
            raise KafkaException(self._refused)
        return True

    def _note(self, error: KafkaError | None, _message: Message) -> None:
        self._refused = error


def _make(topic: str, kafka: Mapping[str, Any]) -> None:
    """Its bytes are wanted for as long as nobody has looked at them."""
    config = {"retention.ms": "-1", "max.message.bytes": str(_BYTES_MAX)}
    admin = AdminClient(dict(kafka))  # what it is asked ends with it
    made = admin.create_topics([NewTopic(topic, 1, config=config)])[topic]
    try:
        made.result(_MADE_WITHIN_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise ConsumerError(
                f"there is no topic {topic} for dead letters, and it cannot be made: "
                f"{error.args[0].str()}. Make it, or allow it"
            ) from error
