"""Streams at the end of the log, by what they want: who wants the same shares what is written.
Pure."""

from collections.abc import Hashable
from typing import Generic, TypeVar

from gateway.streams.log_position import Scope

Member = TypeVar("Member")
Wanted = TypeVar("Wanted", bound=Hashable)


class Channel(Generic[Member, Wanted]):
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


class Channels(Generic[Member, Wanted]):
    def __init__(self) -> None:
        self._all: dict[Wanted, Channel[Member, Wanted]] = {}

    def join(self, member: Member, wanted: Wanted, scope: Scope) -> Channel[Member, Wanted]:
        channel = self._all.get(wanted)
        if channel is None:
            channel = self._all[wanted] = Channel(wanted, scope)
            self._begun(channel)
        channel.join(member)
        return channel

    def leave(self, member: Member, channel: Channel[Member, Wanted]) -> None:
        del channel.members[member]
        if not channel.members:
            del self._all[channel.wanted]
            self._gone(channel)

    def all(self) -> list[Channel[Member, Wanted]]:
        return [*self._all.values()]

    def _begun(self, channel: Channel[Member, Wanted]) -> None:
        """The first member has come."""

    def _gone(self, channel: Channel[Member, Wanted]) -> None:
        """The last one has left."""
