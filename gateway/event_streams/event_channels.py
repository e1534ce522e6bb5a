"""Which streams an event is offered to: that costs a look for its entity and one for its tenant,
however many streams there are. Pure."""

from collections.abc import Iterator
from typing import TypeVar

from gateway.event_streams.wanted_events import Wanted, tenant_of
from gateway.streams.channels import Channel, Channels

Member = TypeVar("Member")


class EventChannels(Channels[Member, Wanted]):
    def __init__(self) -> None:
        super().__init__()
        self._by_key: dict[bytes, list[Channel[Member, Wanted]]] = {}
        self._by_tenant: dict[bytes, list[Channel[Member, Wanted]]] = {}

    def of(self, key: bytes) -> list[Channel[Member, Wanted]]:
        """Those that may want an event of this entity."""
        return [*self._by_key.get(key, ()), *self._by_tenant.get(tenant_of(key), ())]

    def _begun(self, channel: Channel[Member, Wanted]) -> None:
        for index, key in self._places(channel.wanted):
            index.setdefault(key, []).append(channel)

    def _gone(self, channel: Channel[Member, Wanted]) -> None:
        for index, key in self._places(channel.wanted):
            index[key].remove(channel)
            if not index[key]:
                del index[key]

    def _places(
        self, wanted: Wanted
    ) -> Iterator[tuple[dict[bytes, list[Channel[Member, Wanted]]], bytes]]:
        if wanted.keys is None:
            yield self._by_tenant, wanted.tenant
        else:
            for key in wanted.keys:
                yield self._by_key, key
