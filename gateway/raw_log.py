"""Appends to the ingest topics. The only file that knows the producer's library.

The producer (aiokafka, idempotent) has ways to stay broken for ever: a batch that expires unsent
leaves a hole in its sequence numbers, its sender task may die, its waits may never end. So no call
into it is trusted to return, and after any outcome that is not clear it is replaced as a whole.
"""

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, TopicAuthorizationFailedError

from gateway.outcomes import NotWritten, OutcomeUnknown, Receipt, Record
from gateway.producer_keeper import ProducerKeeper
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
        """Does not wait long for Kafka: whether it is there is what `is_healthy` says."""
        await self._keeper.start()

    async def stop(self) -> None:
        """Within a few seconds, whatever state Kafka is in."""
        await self._keeper.stop()

    def is_healthy(self) -> bool:
        return self._keeper.producer() is not None

    async def append(self, topic: str, record: Record) -> Receipt:
        """A receipt only when all in-sync replicas have the record; else NotWritten or
        OutcomeUnknown, at the deadline at the latest."""
        (outcome,) = await self.append_all(topic, [record])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def append_all(
        self, topic: str, records: Sequence[Record]
    ) -> list[Receipt | NotWritten | OutcomeUnknown]:
        """The outcome of each, under one deadline. Where one could not be handed over, none after
        it is: no entity's later payload overtakes an earlier one."""
        producer = self._keeper.producer()
        if producer is None:
            return [NotWritten("kafka_unreachable", "Kafka is away")] * len(records)
        deadline = asyncio.get_running_loop().time() + self._deadline_s
        self._keeper.in_flight += 1
        try:
            if producer.client.cluster.partitions_for_topic(topic) is None:
                await _look_for(producer, topic)
            handed = await self._hand_over(producer, deadline, topic, records)
            written = [one for one in handed if isinstance(one, asyncio.Future)]
            # unlike wait_for, `wait` leaves futures alone: giving up does not undo the write
            if written:
                left_s = deadline - asyncio.get_running_loop().time()
                await asyncio.wait(written, timeout=left_s)
            return [
                self._outcome(producer, one) if isinstance(one, asyncio.Future) else one
                for one in handed
            ]
        except NotWritten as refusal:
            return [refusal] * len(records)
        finally:
            self._keeper.in_flight -= 1

    async def _hand_over(
        self, producer: Any, deadline: float, topic: str, records: Sequence[Record]
    ) -> "list[asyncio.Future[Any] | NotWritten]":
        handed: list[asyncio.Future[Any] | NotWritten] = []
        for record in records:
            # `send` waits for room in a batch: until it returns, nothing of the record is anywhere
            try:
                async with asyncio.timeout_at(deadline):
                    handed.append(
                        await producer.send(topic, record.value, record.key, headers=record.headers)
                    )
            except MessageSizeTooLargeError:
                handed.append(_too_large())
            except Exception as error:  # aiokafka lets more through than its own errors
                self._keeper.retire(producer, error)
                away = NotWritten("kafka_unreachable", "Kafka takes nothing at the moment")
                return handed + [away] * (len(records) - len(handed))
        return handed

    def _outcome(
        self, producer: Any, written: "asyncio.Future[Any]"
    ) -> Receipt | NotWritten | OutcomeUnknown:
        if not written.done():
            written.add_done_callback(_look_at_result)
            self._keeper.retire(producer, TimeoutError(f"no ack within {self._deadline_s} s"))
            return OutcomeUnknown()
        try:
            metadata = written.result()
        except MessageSizeTooLargeError as error:
            self._keeper.retire(producer, error)
            return _too_large()
        except TopicAuthorizationFailedError as error:
            self._keeper.retire(producer, error)
            return NotWritten("not_authorized", "Kafka does not let the gateway write")
        except Exception as error:
            self._keeper.retire(producer, error)
            return OutcomeUnknown()
        if metadata.offset < 0 or metadata.log_start_offset < 0:
            # a repeat that the broker knows, but not its place any more
            return OutcomeUnknown()
        self._keeper.acked_at = asyncio.get_running_loop().time()
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
