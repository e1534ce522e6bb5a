"""Appends to the ingest topics. With its queues, the only part that knows the producer's library.

The producer (aiokafka, idempotent) has ways to stay broken for ever: a batch that expires unsent
leaves a hole in its sequence numbers, its sender task may die, its waits may never end. So no call
into it is trusted to return, and after any outcome that is not clear it is replaced as a whole.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.partitioner import murmur2

from gateway.kafka_writer.known_partitions import KnownPartitions
from gateway.kafka_writer.outcome import NotWritten, OnWritten, Record
from gateway.kafka_writer.partition_queue import AWAY, Parcel, PartitionQueue, Writer
from gateway.kafka_writer.producer_keeper import NOT_AUTHORIZED, ProducerKeeper
from shared.settings import GatewaySettings

# more costs less, but all of it has to be there by the deadline, over a slow way, too
_BATCH_BYTES = 256 * 1024
_ENVELOPE_BYTES_MAX = 64 * 1024  # key, headers and framing, beside the body
_METADATA_DEADLINE_S = 1.0
_KEYS_KNOWN_MAX = 100_000
_REFUSAL_TOLD_S = 60.0
_NEWS_LOOKS = 8
_NEWS_PAUSE_S = 0.2


class KafkaLog:
    def __init__(self, settings: GatewaySettings, topics: Collection[str]) -> None:
        self._settings = settings
        # whoever can go to the spool need not wait so long
        self._deadline_s = (
            settings.spool_after_s if settings.spool_bytes_max else settings.produce_deadline_s
        )
        self._access = settings.kafka.for_aiokafka()
        self._keeper = ProducerKeeper(self._make_producer, topics, settings.kafka_bootstrap)
        self._known = KnownPartitions(settings.state_dir, settings.widened_topics)
        self._queues: dict[str, list[PartitionQueue]] = {}
        self._forgotten: set[str] = set()
        self._writers: dict[int | None, Writer] = {}  # by the broker; None: nobody leads
        self._hashes: dict[bytes, int] = {}
        self._looks: set[asyncio.Task[None]] = set()
        self._looked_for: dict[str, list[Parcel]] = {}  # by topic, in their order
        self._now_s: Callable[[], float]

    async def start(self) -> None:
        """Does not wait long for Kafka: whether it is there is what `is_healthy` says."""
        # to ask for the loop each time costs a call of the system
        self._now_s = asyncio.get_running_loop().time
        await self._keeper.start()

    async def stop(self) -> None:
        """Within a few seconds, whatever state Kafka is in."""
        await self._keeper.stop()

    def forget(self, topic: str) -> None:
        """Its partitions are looked up anew, at Kafka itself: it may be another one by now, or have
        more. Only for who has nothing of it under way."""
        if self._queues.pop(topic, None) is not None:
            self._forgotten.add(topic)

    def is_healthy(self) -> bool:
        return self._keeper.producer() is not None

    def replacements(self) -> int:
        return self._keeper.replacements

    def put(self, topic: str, records: Sequence[Record], on_written: OnWritten) -> None:
        """Receipt only when all in-sync replicas have the record; else NotWritten or
        OutcomeUnknown, at the deadline at the latest."""
        if self._keeper.producer() is None:
            on_written([self._why_none()] * len(records))
            return
        parcel = Parcel(records, on_written, self._now_s() + self._deadline_s)
        queues = self._queues.get(topic)
        if queues is not None:
            queues[self._hash(records[0].key) % len(queues)].put(parcel)
        elif topic in self._looked_for:
            self._looked_for[topic].append(parcel)
        else:
            self._looked_for[topic] = [parcel]
            look = asyncio.create_task(self._put_on_new_queues(topic))
            self._looks.add(look)
            look.add_done_callback(self._looks.discard)

    async def _put_on_new_queues(self, topic: str) -> None:
        producer, count = self._keeper.producer(), None
        try:
            count = await self._count(producer, topic) if producer else None
        finally:
            parcels = self._looked_for.pop(topic)
        if not count:
            why = self._why_none() if count is None else self._why_unknown(producer, topic)
            for parcel in parcels:
                parcel.on_batch_done(0, [why] * len(parcel.records))
            return
        # they stay until it is forgotten: more partitions would move keys, and break their order
        count, writer = self._known.to_use(topic, count), self._writer(None)
        queues = self._queues[topic] = [PartitionQueue(topic, p, writer) for p in range(count)]
        for parcel in parcels:
            queues[self._hash(parcel.records[0].key) % count].put(parcel)

    async def _count(self, producer: Any, topic: str) -> int | None:
        """None where Kafka does not say it. Its answer counts, and not what the producer has heard
        before, where the topic may have got partitions; and not the answer of a broker alone that
        may not have heard of them yet."""
        count, known = _partitions(producer, topic), self._known.of(topic)
        is_to_ask = topic in self._forgotten or not count or count < known
        for look in range(_NEWS_LOOKS if is_to_ask else 0):
            await asyncio.sleep(_NEWS_PAUSE_S if look else 0)
            if not await _is_updated(producer):
                return None
            count = _partitions(producer, topic)
            if not count or count >= known:
                break
        self._forgotten.discard(topic)
        return count

    def refusal(self) -> str:
        """What Kafka does not let the gateway do; of a topic only while somebody goes on trying."""
        if self._keeper.refused:
            return NOT_AUTHORIZED.detail
        since_s = self._now_s() - _REFUSAL_TOLD_S
        topics = sorted(t for t, at_s in self._keeper.refused_at_s.items() if at_s > since_s)
        return f"{NOT_AUTHORIZED.detail} to {', '.join(topics)}" if topics else ""

    def _why_unknown(self, producer: Any, topic: str) -> NotWritten:
        if topic in producer.client.cluster.unauthorized_topics:
            self._keeper.refused_at_s[topic] = self._now_s()
            return NOT_AUTHORIZED
        return NotWritten("topic_missing", f"Kafka has no topic {topic}")

    def _why_none(self) -> NotWritten:
        return NOT_AUTHORIZED if self._keeper.refused else AWAY

    def _writer_of(self, queue: PartitionQueue) -> Writer:
        producer = self._keeper.producer()
        leader = producer.client.cluster.leader_for_partition(queue.place) if producer else None
        return self._writer(None if leader == -1 else leader)

    def _writer(self, leader: int | None) -> Writer:
        if leader not in self._writers:
            self._writers[leader] = Writer(self._keeper, self._writer_of)
        return self._writers[leader]

    def _hash(self, key: bytes) -> int:
        """As Kafka's own clients do; remembered, because it is slow in Python."""
        known = self._hashes.get(key)
        if known is None:
            if len(self._hashes) >= _KEYS_KNOWN_MAX:
                self._hashes.clear()
            known = self._hashes[key] = murmur2(key) & 0x7FFFFFFF
        return known

    def _make_producer(self) -> Any:
        return AIOKafkaProducer(
            **self._access,
            client_id="headrace-gateway",
            acks="all",
            enable_idempotence=True,
            max_request_size=self._settings.body_bytes_max + _ENVELOPE_BYTES_MAX,
            max_batch_size=_BATCH_BYTES,
            linger_ms=0,
            # half the deadline: one lost answer leaves time for a second try
            request_timeout_ms=max(1000, int(self._deadline_s * 500)),
            retry_backoff_ms=100,
        )


def _partitions(producer: Any, topic: str) -> int:
    return len(producer.client.cluster.partitions_for_topic(topic) or ())


async def _is_updated(producer: Any) -> bool:
    with contextlib.suppress(Exception):  # aiokafka lets more through than its own errors
        async with asyncio.timeout(_METADATA_DEADLINE_S):
            return bool(await producer.client.force_metadata_update())
    return False
