"""Appends to the ingest topics. The only file that knows the producer's library.

The producer (aiokafka, idempotent) has ways to stay broken for ever: a batch that expires unsent
leaves a hole in its sequence numbers, its sender task may die, its waits may never end. So no call
into it is trusted to return, and after any outcome that is not clear it is replaced as a whole.
"""

import asyncio
import contextlib
from collections.abc import Collection
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, TopicAuthorizationFailedError

from gateway.outcomes import NotWritten, OutcomeUnknown, Receipt
from gateway.producer_keeper import ProducerKeeper
from shared.envelope import Header
from shared.settings import GatewaySettings

_BATCH_BYTES = 128 * 1024
_ENVELOPE_BYTES_MAX = 64 * 1024  # key, headers and framing, beside the body
_METADATA_DEADLINE_S = 1.0


class RawLog:
    def __init__(self, settings: GatewaySettings, topics: Collection[str]) -> None:
        self._settings = settings
        self._deadline_s = settings.produce_deadline_s
        self._keeper = ProducerKeeper(self._make_producer, topics, settings.kafka_bootstrap)

    async def start(self) -> None:
        """Does not wait for Kafka: whether it is there is what `is_healthy` says."""
        await self._keeper.start()

    async def stop(self) -> None:
        """Within a few seconds, whatever state Kafka is in."""
        await self._keeper.stop()

    def is_healthy(self) -> bool:
        return self._keeper.producer() is not None

    async def append(self, topic: str, key: bytes, value: bytes, headers: list[Header]) -> Receipt:
        """A receipt only when all in-sync replicas have the record; else NotWritten or
        OutcomeUnknown, at the deadline at the latest."""
        producer = self._keeper.producer()
        if producer is None:
            raise NotWritten("kafka_unreachable", "Kafka is away")
        deadline = asyncio.get_running_loop().time() + self._deadline_s
        self._keeper.in_flight += 1
        try:
            if producer.client.cluster.partitions_for_topic(topic) is None:
                await _look_for(producer, topic)
            written = await self._hand_over(producer, deadline, topic, key, value, headers)
            return await self._outcome(producer, deadline, written)
        finally:
            self._keeper.in_flight -= 1

    async def _hand_over(
        self,
        producer: Any,
        deadline: float,
        topic: str,
        key: bytes,
        value: bytes,
        headers: list[Header],
    ) -> "asyncio.Future[Any]":
        # `send` waits for room in a batch: until it returns, nothing of the record is anywhere
        try:
            async with asyncio.timeout_at(deadline):
                written: asyncio.Future[Any] = await producer.send(
                    topic, value, key, headers=headers
                )
        except MessageSizeTooLargeError:
            raise _too_large() from None
        except Exception as error:  # aiokafka lets more through than its own errors
            self._keeper.retire(producer, error)
            raise NotWritten("kafka_unreachable", "Kafka takes nothing at the moment") from None
        return written

    async def _outcome(
        self, producer: Any, deadline: float, written: "asyncio.Future[Any]"
    ) -> Receipt:
        loop = asyncio.get_running_loop()
        # unlike wait_for, `wait` leaves the future alone: giving up does not undo the write
        await asyncio.wait((written,), timeout=deadline - loop.time())
        if not written.done():
            written.add_done_callback(_look_at_result)
            self._keeper.retire(producer, TimeoutError(f"no ack within {self._deadline_s} s"))
            raise OutcomeUnknown
        try:
            metadata = written.result()
        except MessageSizeTooLargeError as error:
            self._keeper.retire(producer, error)
            raise _too_large() from None
        except TopicAuthorizationFailedError as error:
            self._keeper.retire(producer, error)
            raise NotWritten("not_authorized", "Kafka does not let the gateway write") from None
        except Exception as error:
            self._keeper.retire(producer, error)
            raise OutcomeUnknown from None
        if metadata.offset < 0 or metadata.log_start_offset < 0:
            # a repeat that the broker knows, but not its place any more
            raise OutcomeUnknown
        self._keeper.acked_at = loop.time()
        return Receipt(metadata.topic, metadata.partition, metadata.offset)

    def _make_producer(self) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            bootstrap_servers=self._settings.kafka_bootstrap,
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


async def _look_for(producer: Any, topic: str) -> None:
    with contextlib.suppress(KafkaError, TimeoutError):
        async with asyncio.timeout(_METADATA_DEADLINE_S):
            await producer.client.force_metadata_update()
    if producer.client.cluster.partitions_for_topic(topic) is None:
        raise NotWritten("topic_missing", f"Kafka has no topic {topic}")


def _too_large() -> NotWritten:
    return NotWritten("record_too_large", "Kafka's max.message.bytes is below this body's size")


def _look_at_result(future: "asyncio.Future[Any]") -> None:
    # an exception that nobody looks at is logged as a fault of ours
    if not future.cancelled():
        future.exception()
