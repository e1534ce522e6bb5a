"""States that are divided among gateways. One that is not held here is asked of those that should:
of the next one, where the first does not answer, has not read its part yet, or is far behind."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from gateway.kafka_writer.partition_of_key import partition_of
from gateway.peers.peer import Peer, Place
from gateway.peers.states import UNKNOWN, WITHIN_S, States, Told, Wanted
from gateway.state_view.holders import ranked
from gateway.state_view.parts import part_of
from gateway.state_view.peer_protocol import bearer
from gateway.state_view.reader import StateView
from gateway.streams.loop_share import LoopShare
from shared.model import Aggregate, Entity
from shared.settings import GatewaySettings
from shared.timestamps import now_ms

_LOOK_EVERY_S = 1.0


class DividedStates(States):
    """Those of entities. What aggregates have is little: each gateway holds it."""

    def __init__(self, view: StateView, settings: GatewaySettings) -> None:
        super().__init__(view)
        self._own_url = settings.own_peer_url
        self._near_ms = settings.near_ms
        self._copies = settings.state_copies
        # once: their files may be in the middle of being replaced at a later look
        self._headers, self._tls = bearer(settings), settings.peer_tls(self._own_url)
        self._peers: dict[str, Peer] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._looked_s = float("-inf")
        self._gateways: Sequence[str] = ()
        self._partitions: Mapping[str, int] = {}

    async def stop(self) -> None:
        await asyncio.gather(*self._leaving, *(peer.close() for peer in self._peers.values()))

    def is_divided(self, of: Entity | Aggregate) -> bool:
        return isinstance(of, Entity)

    def here(self, of: Entity | Aggregate, key: str) -> Told | None:
        if not self.is_divided(of):
            return super().here(of, key)
        place = self._place(of, key)
        if place is None:
            return UNKNOWN
        told = Told(*self.view.find(*place))
        return told if self._is_near(told) else None

    async def find_all(
        self, wanted: Iterable[Wanted], within_s: float = WITHIN_S
    ) -> Mapping[tuple[str, str], Told]:
        found: dict[tuple[str, str], Told] = {}
        elsewhere: dict[Place, tuple[str, str]] = {}
        share = LoopShare()
        for of, key in wanted:
            if share.is_used_up():
                await share.give_back()
            told = self.here(of, key)
            if told is not None:
                found[of.name, key] = told
            elif (place := self._place(of, key)) is not None:
                elsewhere[place] = of.name, key
        for place, told in (await self._ask_others(elsewhere, within_s)).items():
            found[elsewhere[place]] = told
        return found

    def _place(self, of: Entity | Aggregate, key: str) -> Place | None:
        if time.monotonic() >= self._looked_s + _LOOK_EVERY_S:
            self._look()
        partitions = self._partitions.get(of.topic)
        if not partitions:
            return None  # the view's writer has not seen the topic yet
        part = part_of(of.topic, partition_of(key.encode(), partitions))
        return Place(part, key.encode())

    def _look(self) -> None:
        self._looked_s = time.monotonic()
        self._gateways, self._partitions = self.view.gateways(), self.view.divided()
        for url in self._peers.keys() - {*self._gateways}:
            leaving = asyncio.get_running_loop().create_task(self._peers.pop(url).close())
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    def _is_near(self, told: Told) -> bool:
        age_ms = now_ms() - (told.progress.caught_up_ms or 0)
        return told.progress.warm and age_ms <= self._near_ms

    async def _ask_others(self, places: Collection[Place], within_s: float) -> dict[Place, Told]:
        give_up_s = time.monotonic() + within_s
        found, left, share = dict[Place, Told](), dict[Place, list[str]](), LoopShare()
        order = {part: self._to_ask(part) for part in {place.part for place in places}}
        for place in places:
            found[place] = Told(*self.view.find(*place))
            left[place] = order[place.part]
            if share.is_used_up():
                await share.give_back()
        for turn in range(len(self._gateways)):
            of_gateway: dict[str, list[Place]] = defaultdict(list)
            for place, gateways in left.items():
                # where Kafka is away, it is as old at all: only those are asked that should hold it
                limit = self._copies if found[place].progress.warm else len(gateways)
                if turn < min(limit, len(gateways)):
                    of_gateway[gateways[turn]].append(place)
            left_s = give_up_s - time.monotonic()
            if not of_gateway or left_s <= 0:
                break
            asked = (self._peer(url).ask(its, left_s) for url, its in of_gateway.items())
            for answers in await asyncio.gather(*asked):
                for place, told in answers.items():
                    if _caught_up(told) > _caught_up(found[place]):
                        found[place] = told
                    if self._is_near(told):
                        del left[place]
        return found

    def _to_ask(self, part: str) -> list[str]:
        others = [url for url in ranked(self._gateways, part) if url != self._own_url]
        return sorted(others, key=lambda url: self._peer(url).is_silent)

    def _peer(self, url: str) -> Peer:
        if url not in self._peers:
            self._peers[url] = Peer(url, self._headers, self._tls)
        return self._peers[url]


def _caught_up(told: Told) -> int:
    return (told.progress.caught_up_ms or 0) if told.progress.warm else -1
