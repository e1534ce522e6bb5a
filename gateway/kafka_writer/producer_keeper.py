"""Keeps one producer that works: starts it, watches it, replaces it, takes the old one apart."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from aiokafka.errors import ClusterAuthorizationFailedError

from gateway.kafka_writer.outcome import NotWritten

log = logging.getLogger(__name__)

_START_DEADLINE_S = 3.0
_FIRST_WAIT_S = 2.0
_START_PAUSE_S = 0.3
_PROBE_EVERY_S = 0.5
_PROBE_DEADLINE_S = 1.5
_PROBES_FAILED_MAX = 2
_STOP_DEADLINE_S = 2.0

NOT_AUTHORIZED = NotWritten("not_authorized", "Kafka does not let the gateway write")


class ProducerKeeper:
    """`producer()` is None while Kafka does not answer, so that nobody waits for it in vain."""

    def __init__(self, make: Callable[[], Any], topics: Collection[str], bootstrap: str) -> None:
        self.in_flight = 0
        self.acked_at = 0.0  # by the loop's clock
        self.replacements = 0
        self.refused = False  # Kafka lets the gateway write nowhere
        self.refused_at_s: dict[str, float] = {}  # by topic
        self._make = make
        self._topics = tuple(topics)
        self._bootstrap = bootstrap
        self._producer: Any = None
        self._reachable = False
        self._made = asyncio.Event()
        self._replace = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def producer(self) -> Any:
        return self._producer if self._reachable else None

    async def start(self) -> None:
        """Waits a moment for the first producer: the port opens next, and whoever finds it open
        should not hear that Kafka is away."""
        self._task = asyncio.create_task(self._keep())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._made.wait(), _FIRST_WAIT_S)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,), timeout=2 * _STOP_DEADLINE_S)
        if self._closing:
            await asyncio.wait(self._closing, timeout=2 * _STOP_DEADLINE_S)

    def retire(self, producer: Any, why: BaseException) -> None:
        if producer is self._producer:
            log.warning("replacing the producer: %s: %s", type(why).__name__, why)
            self._producer = None
            self._replace.set()

    async def _keep(self) -> None:
        while True:
            producer = await self._new_producer()
            self._replace.clear()
            self._producer, self._reachable = producer, True
            self._made.set()
            log.info("ready to write to %s", self._bootstrap)
            try:
                await self._watch(producer)
            finally:
                self._producer, self._reachable = None, False
                task = asyncio.create_task(_close(producer))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
            self.replacements += 1

    async def _watch(self, producer: Any) -> None:
        """Returns when this producer is to be replaced."""
        loop = asyncio.get_running_loop()
        failures = 0
        while not self._replace.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._replace.wait(), _PROBE_EVERY_S)
            if _sender_is_dead(producer):
                log.warning("the producer's sender task has died")
                return
            # an ack is as good as an answer
            answers = loop.time() - self.acked_at < _PROBE_EVERY_S or await _answers(producer)
            failures = 0 if answers else failures + 1
            if self._reachable and failures == _PROBES_FAILED_MAX:
                log.warning("Kafka at %s does not answer", self._bootstrap)
            self._reachable = failures < _PROBES_FAILED_MAX
            # those in flight may still succeed when it comes back; each has its own deadline
            if not self._reachable and self.in_flight == 0:
                return

    async def _new_producer(self) -> Any:
        while True:
            producer = self._make()
            try:
                async with asyncio.timeout(_START_DEADLINE_S):
                    await producer.start()
                    await producer.client.set_topics(self._topics)
                self.refused = False
                return producer
            except asyncio.CancelledError:
                await _close(producer)
                raise
            except Exception as error:  # aiokafka lets more through than its own errors
                refused = isinstance(error, ClusterAuthorizationFailedError)
                if refused and not self.refused:
                    log.error("%s", NOT_AUTHORIZED)
                self.refused = refused
                log.debug("no producer yet: %s", error)
                await _close(producer)
            await asyncio.sleep(_START_PAUSE_S)


async def _answers(producer: Any) -> bool:
    try:
        async with asyncio.timeout(_PROBE_DEADLINE_S):
            await producer.client.fetch_all_metadata()
    except Exception:
        return False
    return True


def _sender_is_dead(producer: Any) -> bool:
    task = producer._sender.sender_task
    return task is None or task.done()


async def _close(producer: Any) -> None:
    """Lets it finish what it holds for a moment, then takes it apart. Whoever still waits for an
    ack from it goes on waiting until his own deadline: failing aiokafka's batches from outside
    breaks its callbacks."""
    if await _ends(producer.stop()):
        return
    sender = producer._sender.sender_task
    if sender is not None:
        # aiokafka's own callback fails on a producer without transactions
        sender.remove_done_callback(producer._sender._fail_all)
        sender.cancel()
        await asyncio.wait((sender,), timeout=_STOP_DEADLINE_S)
    await _ends(producer.client.close())


async def _ends(closing: Coroutine[Any, Any, None]) -> bool:
    task = asyncio.create_task(closing)
    await asyncio.wait((task,), timeout=_STOP_DEADLINE_S)
    if not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=_STOP_DEADLINE_S)
        return False
    return not task.cancelled() and task.exception() is None
