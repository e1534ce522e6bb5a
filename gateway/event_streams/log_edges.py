"""Where a stream begins, by what it asks for and what the log still has."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from confluent_kafka import KafkaException

from clients.kafka.offsets import ANSWERS_SOON, LogOffsets
from clients.kafka.records import Partition, Range
from gateway.event_streams.live_reader import ANSWER_S
from gateway.event_streams.recent_events import RecentEvents
from gateway.event_streams.wanted_events import Start
from gateway.http.problems import Problem, retry_after
from gateway.streams.log_position import (
    BadPosition,
    Layout,
    LogPosition,
    Scope,
    is_behind,
    read_id,
)
from shared.consumer_groups import VIEW
from shared.kafka_access import KafkaAccess

Found = TypeVar("Found")


class LogEdges:
    """Asks Kafka in a thread of its own, and only for what memory does not tell."""

    def __init__(self, kafka: KafkaAccess) -> None:
        self._kafka = kafka
        self._thread = ThreadPoolExecutor(1, "event edges")
        self._log: LogOffsets | None = None  # the thread's own

    async def position_of(
        self, start: Start, layout: Layout, scope: Scope, recent: RecentEvents
    ) -> LogPosition:
        """Problem where there is no such place."""
        position = recent.now.copy()
        if start.after is not None:
            try:
                given = scope.offsets_of(read_id(start.after))
            except BadPosition as bad:
                raise Problem(400, "bad_event_id", str(bad)) from None
            await self._go_to(position, given, layout, scope, recent)
        elif start.is_earliest:
            ranges = await self._ask(LogOffsets.ranges, layout, scope)
            _put(position, layout, {at: its.start for at, its in ranges.items()})
        elif start.since_ms is not None:
            found = await self._ask(partial(_since, start.since_ms), layout, scope)
            _put(position, layout, found)
        return position

    async def _go_to(
        self,
        position: LogPosition,
        given: Mapping[int, int],
        layout: Layout,
        scope: Scope,
        recent: RecentEvents,
    ) -> None:
        known = len(given) == len(scope.places)
        for place, offset in given.items():
            position.advance(place, offset)
        if (
            known
            and recent.have_all_since(position.offsets, scope.places)
            and not is_behind(recent.now.offsets, position.offsets, scope.places)
        ):
            return
        for at, its in (await self._ask(LogOffsets.ranges, layout, scope)).items():
            place = layout.place_of[at]
            if place not in given:
                position.advance(place, its.start)
            elif not its.start <= given[place] <= its.end:
                raise _gone(at, given[place], its)

    async def _ask(
        self, question: Callable[[LogOffsets, list[Partition]], Found], layout: Layout, scope: Scope
    ) -> Found:
        partitions = [layout.partitions[place] for place in scope.places]

        def ask() -> Found:
            if self._log is None:
                self._log = LogOffsets(self._kafka, VIEW, answer_s=ANSWER_S, options=ANSWERS_SOON)
            return question(self._log, partitions)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, ask)
        except KafkaException as error:
            raise unavailable(error.args[0].str()) from None

    def close(self) -> None:
        """Waits for a question that is under way."""
        self._thread.shutdown()
        if self._log is not None:
            self._log.close()


def _since(time_ms: int, log: LogOffsets, partitions: list[Partition]) -> dict[Partition, int]:
    ends = log.ends(partitions)  # for what comes after both questions
    found = log.since(dict.fromkeys(partitions, time_ms))
    return {at: ends[at] if offset is None else offset for at, offset in found.items()}


def _put(position: LogPosition, layout: Layout, found: Mapping[Partition, int]) -> None:
    for at, offset in found.items():
        position.advance(layout.place_of[at], offset)


def unavailable(why: str) -> Problem:
    return Problem(
        503,
        "events_unavailable",
        f"the event topics cannot be read now; come again: {why}",
        headers=retry_after(1),
    )


def _gone(at: Partition, offset: int, its: Range) -> Problem:
    topic, partition = at
    why = (
        f"was deleted up to {its.start} by retention, with events that were still to come"
        if offset < its.start
        else f"ends at {its.end}: it is another log of the same name"
    )
    return Problem(
        410,
        "position_gone",
        f"this id goes on at offset {offset} of {topic}/{partition}, which {why}; begin anew "
        "without the id: with from=earliest, since=<time>, or with what comes from now on",
    )
