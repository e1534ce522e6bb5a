"""All POSTs of this process that wait, and who tells them what has become of their payloads.

Events, lanes and dead letters come from the reader. Whether a state has an event, the view says,
from which `/state` is answered: so whoever was told of a version finds it there.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine

from confluent_kafka import KafkaException

from gateway.auth.caller import Caller
from gateway.effects.answer import Posted
from gateway.effects.effect import Effect
from gateway.effects.effect_reader import Begun, EffectReader
from gateway.effects.places import Places
from gateway.effects.record_effects import Listener, Made, Told
from gateway.effects.stored_rows import StoredRows
from gateway.effects.wait import Wait
from gateway.effects.wait_request import (
    FOLDED,
    LEVELS,
    STORED,
    Asked,
    asked_by_query,
    with_preferences,
)
from gateway.peers import states
from gateway.peers.states import States
from gateway.streams.loop_share import LoopShare
from shared.flow_table import Flow
from shared.model import Entity
from shared.settings import GatewaySettings

log = logging.getLogger(__name__)

_BEGINS_WITHIN_S = 1.0  # longer no payload is held back for it
_ALONE_MAX_S = 60.0
_LOOK_EVERY_S = 0.01
_ASK_EVERY_S = 0.1
_NOT_HEARD = "Kafka does not say what becomes of it"
_ENDS = "this gateway is about to end"


class WaitingPosts:
    def __init__(self, settings: GatewaySettings, flow: Flow, held: States, places: Places) -> None:
        self.flow = flow
        self._settings = settings
        self._states = held
        self._places = places
        self._rows = StoredRows(settings.postgres_url.get_secret_value())
        self._waits: dict[str, set[Wait]] = {}  # by the payload's id
        self._count = 0
        self._elsewhere: dict[Wait, list[tuple[Entity, str]]] = {}  # states that are not held here
        self._listener = Listener(flow)
        self._reader: EffectReader | None = None
        self._is_begun = self._is_ending = False
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._rests_at: asyncio.TimerHandle | None = None

    @property
    def count(self) -> int:
        return self._count

    async def start(self) -> None:
        """Begins with the first who waits."""

    def end(self) -> None:
        """Whoever waits is answered now."""
        self._is_ending = True
        self._give_all_up(_ENDS)

    async def stop(self) -> None:
        self.end()
        self._rest()
        if self._rests_at is not None:
            self._rests_at.cancel()
        await self._rows.close()

    # what a POST asks

    def asked_by_query(self, query: bytes) -> Asked | None:
        return asked_by_query(query, self._settings.wait_max_s) if query else None

    def with_preferences(self, asked: Asked | None, prefer: bytes) -> Asked | None:
        return with_preferences(asked, prefer, self._settings.wait_max_s)

    def wait(self, asked: Asked, caller: Caller, entity_id: str, payload_sha256: str) -> Wait:
        effect = Effect(payload_sha256, self.flow.readers)
        return Wait(self, asked, Posted(caller, entity_id), effect)

    def enter(self, wait: Wait) -> str | None:
        if self._is_ending:
            return _ENDS
        if not self._places.take():
            return "as many wait as may: HEADRACE_WAITING_POSTS_MAX"
        self._count += 1
        self._waits.setdefault(wait.payload_id, set()).add(wait)
        self._listener.ids.add(wait.payload_id.encode())
        if self._reader is None:
            self._begin()
        if self._is_begun:
            wait.can_be_heard()
        else:
            loop = asyncio.get_running_loop()
            loop.call_later(_BEGINS_WITHIN_S, wait.be_heard_or_not)
        return None

    def leave(self, wait: Wait) -> None:
        its = self._waits.get(wait.payload_id, set())
        if wait not in its:
            return
        self._count -= 1
        self._places.give_back()
        its.discard(wait)
        if not its:
            del self._waits[wait.payload_id]
            self._listener.ids.discard(wait.payload_id.encode())
        if not self._count:
            self._rest_after_a_while()

    # who tells

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        reader: EffectReader

        def tell(told: Begun | list[Told] | Exception) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._hear, reader, told)

        reader = self._reader = EffectReader(self._settings.kafka, self._listener, tell)
        reader.start()

    def _hear(self, reader: EffectReader, told: Begun | list[Told] | Exception) -> None:
        if reader is not self._reader:
            return
        if isinstance(told, Begun):
            self._is_begun = True
            for wait in self._all():
                wait.can_be_heard()
        elif isinstance(told, Exception):
            said = told.args[0].str() if isinstance(told, KafkaException) else "its log has changed"
            self._rest()
            self._give_all_up(f"{_NOT_HEARD}: {said}")
        else:
            for one in told:
                self._take(one)

    def _take(self, told: Told) -> None:
        for wait in [*self._waits.get(told.payload_id, ())]:
            wait.effect.hear(told)
            wait.is_told()
            if isinstance(told.fact, Made) and wait.asked.level in LEVELS[LEVELS.index(FOLDED) :]:
                self._work("looks", self._look_at_states)
                self._work("rows", self._ask_for_rows)

    def _give_all_up(self, why: str) -> None:
        for wait in self._all():
            wait.give_up(why)

    def _all(self) -> list[Wait]:
        return [wait for its in self._waits.values() for wait in its]

    # states

    async def _look_at_states(self) -> None:
        share = LoopShare()
        while self._count:
            for wait in self._all():
                now_s = time.monotonic()
                if wait.effect.is_enriched and wait.look_at_s <= now_s:
                    wait.looks_again(now_s, self._places.pause_s)
                    if elsewhere := await self._look(wait, share):
                        self._elsewhere[wait] = elsewhere
                        self._work("elsewhere", self._look_elsewhere)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _look(self, wait: Wait, share: LoopShare) -> list[tuple[Entity, str]]:
        """Those of its states that are not held here."""
        elsewhere = []
        for entity, entity_id in wait.effect.unfolded():
            told = self._states.here(entity, entity_id)
            if told is None:
                elsewhere.append((entity, entity_id))
            else:
                self._show(wait, entity, entity_id, told)
            if share.is_used_up():
                await share.give_back()
        wait.is_told()
        return elsewhere

    async def _look_elsewhere(self) -> None:
        """Others are asked for all of them at once: one that hangs holds up no state of here."""
        share = LoopShare()
        while self._elsewhere:
            waits, self._elsewhere = self._elsewhere, {}
            found = await self._states.find_all({one for its in waits.values() for one in its})
            for wait, its in waits.items():
                for entity, entity_id in its:
                    if told := found.get((entity.name, entity_id)):
                        self._show(wait, entity, entity_id, told)
                wait.is_told()
                if share.is_used_up():
                    await share.give_back()

    def _show(self, wait: Wait, entity: Entity, entity_id: str, told: states.Told) -> None:
        progress, found = told
        if progress.warm and progress.caught_up_ms is not None and found is not None:
            try:
                wait.effect.look(entity, entity_id, found.value)
            except (ValueError, KeyError, TypeError, AttributeError):
                wait.give_up(f"the state of this {entity.name} cannot be read")

    # rows

    async def _ask_for_rows(self) -> None:
        while self._count:
            of_event: dict[str, list[Wait]] = defaultdict(list)
            for wait in self._all():
                if wait.asked.level == STORED and wait.effect.has(FOLDED):
                    for made in wait.effect.events:
                        of_event[made.id].append(wait)
            if of_event:
                rows = await self._rows.of([*of_event])
                for wait in {wait for its in of_event.values() for wait in its}:
                    wait.effect.take_rows(rows)
                    wait.is_told()
            await asyncio.sleep(_ASK_EVERY_S)

    # when nobody waits

    def _work(self, name: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Until nobody waits any more."""
        task = self._tasks.get(name)
        if task is None or task.done():
            self._tasks[name] = asyncio.get_running_loop().create_task(self._keep(work))

    async def _keep(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            await work()
        except Exception:
            log.exception("a fault in looking what has become of payloads")
            self._give_all_up("a fault of the gateway in looking what has become of it")

    def _rest_after_a_while(self) -> None:
        if self._rests_at is not None:
            self._rests_at.cancel()
        loop = asyncio.get_running_loop()
        self._rests_at = loop.call_later(_ALONE_MAX_S, self._rest_if_alone)

    def _rest_if_alone(self) -> None:
        if not self._count:
            self._rest()
            self._tasks["close"] = asyncio.get_running_loop().create_task(self._rows.close())

    def _rest(self) -> None:
        """Until somebody waits again."""
        if self._reader is not None:
            self._reader.stop()
        self._reader, self._is_begun = None, False
        self._listener.places.clear()
