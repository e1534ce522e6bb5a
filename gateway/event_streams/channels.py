"""Streams at the end of the log, by what they want. Who wants the same shares what is written: an
event costs a look for its entity and one for its tenant, however many streams there are. Pure."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from gateway.event_streams.log_position import Scope
from gateway.event_streams.wanted_events import Wanted, tenant_of

Member = TypeVar("Member")


class Channel(Generic[Member]):
    def __init__(self, wanted: Wanted, scope: Scope) -> None:
        self.wanted = wanted
        self.scope = scope
        self.members: dict[Member, int] = {}  # each with how many rounds it has had
        self._round = 0
        self._frames: list[bytes] = []
        self._written = b""  # in this round

    def add(self, frame: bytes) -> None:
        self._frames.append(frame)

    def begin_round(self) -> None:
        """What was added is now owed to each member."""
        self._written = b"".join(self._frames)
        self._frames.clear()
        self._round += 1

    def owed(self, member: Member) -> bytes:
        """Once: it is to be written before anything else is."""
        if self.members[member] == self._round:
            return b""
        self.members[member] = self._round
        return self._written

    def join(self, member: Member) -> None:
        self.members[member] = self._round


class Channels(Generic[Member]):
    def __init__(self) -> None:
        self._all: dict[Wanted, Channel[Member]] = {}
        self._by_key: dict[bytes, list[Channel[Member]]] = {}
        self._by_tenant: dict[bytes, list[Channel[Member]]] = {}

    def join(self, member: Member, wanted: Wanted, scope: Scope) -> Channel[Member]:
        channel = self._all.get(wanted)
        if channel is None:
            channel = self._all[wanted] = Channel(wanted, scope)
            for index, key in self._places(wanted):
                index.setdefault(key, []).append(channel)
        channel.join(member)
        return channel

    def leave(self, member: Member, channel: Channel[Member]) -> None:
        del channel.members[member]
        if channel.members:
            return
        del self._all[channel.wanted]
        for index, key in self._places(channel.wanted):
            index[key].remove(channel)
            if not index[key]:
                del index[key]

    def of(self, key: bytes) -> list[Channel[Member]]:
        """Those that may want an event of this entity."""
        return [*self._by_key.get(key, ()), *self._by_tenant.get(tenant_of(key), ())]

    def _places(self, wanted: Wanted) -> Iterator[tuple[dict[bytes, list[Channel[Member]]], bytes]]:
        if wanted.keys is None:
            yield self._by_tenant, wanted.tenant
        else:
            for key in wanted.keys:
                yield self._by_key, key
