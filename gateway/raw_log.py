"""Appends to the ingest topics. The only file that knows the producer.

The producer (aiokafka, idempotent) has ways to stay broken for ever: a batch that expires unsent
leaves a hole in its sequence numbers, its sender task may die, its waits may never end. So no call
into it is trusted to return, and after any outcome that is not clear it is replaced as a whole.
"""

import asyncio
import contextlib
import logging
from collections.abc import Collection, Coroutine
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, TopicAuthorizationFailedError

from gateway.outcomes import NotWritten, OutcomeUnknown, Receipt
from shared.envelope import Header
from shared.settings import GatewaySettings

log = logging.getLogger(__name__)

_BATCH_BYTES = 128 * 1024
_ENVELOPE_BYTES_MAX = 64 * 1024  # key, headers and framing, beside the body
_START_DEADLINE_S = 3.0
_START_PAUSE_S = 0.3
_PROBE_EVERY_S = 0.5
_PROBE_DEADLINE_S = 1.5
_PROBES_FAILED_MAX = 2
_STOP_DEADLINE_S = 2.0
_METADATA_DEADLINE_S = 1.0

_TOO_LARGE = NotWritten("record_too_large", "Kafka's max.message.bytes is below this body's size")


class RawLog:
    def __init__(self, settings: GatewaySettings, topics: Collection[str]) -> None:
        self._bootstrap = settings.kafka_bootstrap
        self._deadline_s = settings.produce_deadline_s
        self._record_bytes_max = settings.body_bytes_max + _ENVELOPE_BYTES_MAX
        self._topics = tuple(topics)
        self._producer: AIOKafkaProducer | None = None
        self._reachable = False
        self._replace = asyncio.Event()
        self._in_flight = 0
        self._last_ack_s = 0.0
        self._keeper: asyncio.Task[None] | None = None
        self._retiring: set[asyncio.Task[None]] = set()
        self.replacements = 0

    async def start(self) -> None:
        """Does not wait for Kafka: whether it is there is what `is_healthy` says."""
        self._keeper = asyncio.create_task(self._keep_a_producer())

    async def stop(self) -> None:
        """Within a few seconds, whatever state Kafka is in."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait((self._keeper,), timeout=2 * _STOP_DEADLINE_S)
        if self._retiring:
            await asyncio.wait(self._retiring, timeout=2 * _STOP_DEADLINE_S)

    def is_healthy(self) -> bool:
        return self._producer is not None and self._reachable

    async def append(self, topic: str, key: bytes, value: bytes, headers: list[Header]) -> Receipt:
        """A receipt only when all in-sync replicas have the record; else NotWritten or
        OutcomeUnknown, at the deadline at the latest."""
        producer = self._producer
        if producer is None or not self._reachable:
            raise NotWritten("kafka_unreachable", "Kafka is away")
        deadline_s = asyncio.get_running_loop().time() + self._deadline_s
        self._in_flight += 1
        try:
            return await self._append(producer, topic, key, value, headers, deadline_s)
        finally:
            self._in_flight -= 1

    async def _append(
        self,
        producer: AIOKafkaProducer,
        topic: str,
        key: bytes,
        value: bytes,
        headers: list[Header],
        deadline_s: float,
    ) -> Receipt:
        if producer.client.cluster.partitions_for_topic(topic) is None:
            await self._refresh(producer, topic)
        # `send` only finds room in a batch: until it returns, nothing of the record is anywhere
        try:
            async with asyncio.timeout_at(deadline_s):
                written = await producer.send(topic, value, key, headers=headers)
        except MessageSizeTooLargeError:
            raise _TOO_LARGE from None
        except Exception as error:  # aiokafka lets more through than its own errors
            self._retire(producer, error)
            raise NotWritten("kafka_unreachable", "Kafka takes nothing at the moment") from None
        return await self._outcome(producer, written, deadline_s)

    async def _outcome(
        self,
        producer: AIOKafkaProducer,
        written: "asyncio.Future[Any]",
        deadline_s: float,
    ) -> Receipt:
        loop = asyncio.get_running_loop()
        # unlike wait_for, `wait` leaves the future alone: giving up does not undo the write
        await asyncio.wait((written,), timeout=deadline_s - loop.time())
        if not written.done():
            written.add_done_callback(_look_at_result)
            self._retire(producer, TimeoutError(f"no ack within {self._deadline_s} s"))
            raise OutcomeUnknown
        try:
            metadata = written.result()
        except MessageSizeTooLargeError as error:
            self._retire(producer, error)
            raise _TOO_LARGE from None
        except TopicAuthorizationFailedError as error:
            self._retire(producer, error)
            raise NotWritten("not_authorized", "Kafka does not let the gateway write") from None
        except Exception as error:
            self._retire(producer, error)
            raise OutcomeUnknown from None
        if metadata.offset < 0 or metadata.log_start_offset < 0:
            # a repeat that the broker knows, but not its place any more
            raise OutcomeUnknown
        self._last_ack_s = loop.time()
        return Receipt(metadata.topic, metadata.partition, metadata.offset)

    async def _refresh(self, producer: AIOKafkaProducer, topic: str) -> None:
        with contextlib.suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(_METADATA_DEADLINE_S):
                await producer.client.force_metadata_update()
        if producer.client.cluster.partitions_for_topic(topic) is None:
            raise NotWritten("topic_missing", f"Kafka has no topic {topic}")

    def _retire(self, producer: AIOKafkaProducer, why: BaseException) -> None:
        if producer is self._producer:
            log.warning("replacing the producer: %s: %s", type(why).__name__, why)
            self._producer = None
            self.replacements += 1
            self._replace.set()

    async def _keep_a_producer(self) -> None:
        while True:
            producer = await self._new_producer()
            self._replace.clear()
            self._producer, self._reachable = producer, True
            log.info("ready to write to %s", self._bootstrap)
            try:
                await self._watch(producer)
            finally:
                self._producer, self._reachable = None, False
                task = asyncio.create_task(_close(producer))
                self._retiring.add(task)
                task.add_done_callback(self._retiring.discard)

    async def _watch(self, producer: AIOKafkaProducer) -> None:
        """Returns when this producer is to be replaced."""
        loop = asyncio.get_running_loop()
        failures = 0
        while not self._replace.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._replace.wait(), _PROBE_EVERY_S)
            if _sender_is_dead(producer):
                log.warning("the producer's sender task has died")
                return
            answers = loop.time() - self._last_ack_s < _PROBE_EVERY_S or await _answers(producer)
            failures = 0 if answers else failures + 1
            if self._reachable and failures == _PROBES_FAILED_MAX:
                log.warning("Kafka at %s does not answer", self._bootstrap)
            self._reachable = failures < _PROBES_FAILED_MAX
            if not self._reachable and self._in_flight == 0:
                return

    async def _new_producer(self) -> AIOKafkaProducer:
        while True:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                client_id="headrace-gateway",
                acks="all",
                enable_idempotence=True,
                max_request_size=self._record_bytes_max,
                max_batch_size=_BATCH_BYTES,
                linger_ms=0,
                request_timeout_ms=max(1000, int(self._deadline_s * 500)),
                retry_backoff_ms=100,
            )
            try:
                async with asyncio.timeout(_START_DEADLINE_S):
                    await producer.start()
                    await producer.client.set_topics(self._topics)
                return producer
            except Exception as error:  # KafkaError, OSError, AssertionError ...: try again
                log.debug("no producer yet: %s", error)
                await _close(producer)
            except asyncio.CancelledError:
                await _close(producer)
                raise
            await asyncio.sleep(_START_PAUSE_S)


async def _answers(producer: AIOKafkaProducer) -> bool:
    try:
        async with asyncio.timeout(_PROBE_DEADLINE_S):
            await producer.client.fetch_all_metadata()
    except Exception:
        return False
    return True


def _sender_is_dead(producer: AIOKafkaProducer) -> bool:
    task = producer._sender.sender_task
    return task is None or task.done()


async def _close(producer: AIOKafkaProducer) -> None:
    """Lets it finish what it holds for a moment, then takes it apart."""
    if await _ends(producer.stop()):
        return
    sender = producer._sender.sender_task
    if sender is not None:
        sender.cancel()
        await asyncio.wait((sender,), timeout=_STOP_DEADLINE_S)
    # whoever still waits on this producer hears of it now
    producer._message_accumulator.fail_all(KafkaError("producer replaced"))
    await _ends(producer.client.close())


async def _ends(closing: Coroutine[Any, Any, None]) -> bool:
    task = asyncio.create_task(closing)
    await asyncio.wait((task,), timeout=_STOP_DEADLINE_S)
    if not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=_STOP_DEADLINE_S)
        return False
    return not task.cancelled() and task.exception() is None


def _look_at_result(future: "asyncio.Future[Any]") -> None:
    # an exception that nobody looks at is logged as a fault of ours
    if not future.cancelled():
        future.exception()
