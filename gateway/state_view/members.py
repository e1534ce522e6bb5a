"""Which gateways there are. They are members of a group of Kafka's that reads nothing: so the
broker notices who is gone, and nobody else has to."""

import logging
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from clients.kafka.connect import admin, asker
from shared.consumer_groups import PEERS
from shared.kafka_access import KafkaAccess
from shared.settings.peers import ORIGIN
from shared.topic_names import JOB_STATUS_TOPIC

log = logging.getLogger(__name__)

_ANSWER_S = 2.0
# the least that brokers allow unless they are told otherwise
_SILENT_MAX_MS = 6_000
# after an outage of Kafka all of them join anew, one after the other
_AWAY_S = 12.0


class Members:
    """One that is away for a while is taken for gone; where this gateway is none itself, nobody
    is."""

    def __init__(self, kafka: KafkaAccess, own_url: str) -> None:
        self.is_one = False  # this gateway
        self._own_url = own_url
        self._missed_since_s: dict[str, float | None] = {}
        # that it may abort its process costs a restart of the view's writer, nothing else
        self._admin = admin(kafka)
        options = {
            "client.id": own_url,
            "session.timeout.ms": _SILENT_MAX_MS,
            "heartbeat.interval.ms": _SILENT_MAX_MS // 3,
            "reconnect.backoff.max.ms": 1_000,
        }
        self._consumer = asker(kafka, PEERS, options)
        # of a group, one has to ask for a topic; any that there is
        self._consumer.subscribe([JOB_STATUS_TOPIC], on_assign=_read_nothing)

    @property
    def there(self) -> list[str]:
        """Their addresses."""
        return sorted(self._missed_since_s)

    def stay(self) -> None:
        """To be called often."""
        said = self._consumer.poll(0)
        if said is not None and (error := said.error()) is not None:
            log.warning("this gateway cannot be one of those that divide states: %s", error)

    def look(self) -> None:
        try:
            asked = self._admin.describe_consumer_groups([PEERS], request_timeout=_ANSWER_S)
            ids = {one.client_id for one in asked[PEERS].result(_ANSWER_S).members}
        except (KafkaException, TimeoutError) as error:
            log.info("which gateways there are cannot be looked up: %s", error)
            self._missed_since_s = dict.fromkeys(self._missed_since_s)
            return
        self.note({id_ for id_ in ids if ORIGIN.fullmatch(id_)}, time.monotonic())

    def note(self, found: set[str], now_s: float) -> None:
        is_one = self._own_url in found
        missed = {url: at_s or now_s for url, at_s in self._missed_since_s.items()}
        kept = {
            url: at_s if is_one else None
            for url, at_s in missed.items()
            if url not in found and (now_s - at_s < _AWAY_S or not is_one)
        }
        self._missed_since_s = {**dict.fromkeys(found), **kept}
        self.is_one = is_one  # last: who reads it in another thread knows the others by then


def _read_nothing(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    consumer.assign(partitions)
    consumer.pause(partitions)
