"""A stream of a view's rows and their changes."""

from typing import NamedTuple

from gateway.streams.log_position import LogPosition
from gateway.streams.stream import Stream
from gateway.views.copied_topic import CopiedTopic
from gateway.views.selection import Selection
from shared.model import View


class WantedRows(NamedTuple):
    view: View
    selection: Selection


class ChangeStream(Stream):
    __slots__ = "after", "topic", "wanted"
    wanted: WantedRows
    after: str  # the id that it goes on from; empty: it begins
    topic: CopiedTopic

    def begins_at(self) -> LogPosition:
        if self.after:
            return self.topic.position_after(self.after)
        return self.topic.now.copy() if self.wanted.selection.from_now else self.topic.begin()
