"""Streams at the end of their views, by the rows that they want. Pure."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, TypeVar

from gateway.streams.channels import Channel, Channels
from gateway.views.change_stream import WantedRows
from gateway.views.selection import as_text
from shared.model import View

Member = TypeVar("Member")


class ChangeChannels(Channels[Member, WantedRows]):
    """A row is looked at for those alone that ask for its value in the first column of the key, or
    for none."""

    def __init__(self) -> None:
        super().__init__()
        self._by_value: dict[_Value, dict[Channel[Member, WantedRows], None]] = defaultdict(dict)

    def of(self, view: View, row: dict[str, Any]) -> Iterator[Channel[Member, WantedRows]]:
        for value in (as_text(row.get(view.key[0])), None):
            yield from self._by_value.get((view.topic, value), ())

    def takes_another(self, wanted: WantedRows, at_most: int) -> bool:
        """Each that asks for no value costs time at every row."""
        known = self._by_value.get(_value(wanted), {})
        is_there = any(one.wanted == wanted for one in known)
        return _value(wanted)[1] is not None or is_there or len(known) < at_most

    def _begun(self, channel: Channel[Member, WantedRows]) -> None:
        self._by_value[_value(channel.wanted)][channel] = None

    def _gone(self, channel: Channel[Member, WantedRows]) -> None:
        left = self._by_value[_value(channel.wanted)]
        del left[channel]
        if not left:
            del self._by_value[_value(channel.wanted)]


_Value = tuple[str, str | None]


def _value(wanted: WantedRows) -> _Value:
    """The value of the first column of its view's key."""
    columns = dict(wanted.selection.by_column)
    return wanted.view.topic, columns.get(wanted.view.key[0])
