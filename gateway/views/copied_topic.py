"""A view's topic as this node's copy has it: which one it is, and up to where its streams have been
given its rows."""

from collections.abc import Mapping
from typing import NamedTuple
from zlib import crc32

from gateway.http.problems import Problem, retry_after
from gateway.state_view.reader import StateView
from gateway.streams.log_position import BadPosition, Layout, LogPosition, Scope, read_id
from shared.model import View


class CopySeen(NamedTuple):
    topic_id: str
    is_whole: bool
    ends: Mapping[int, int]  # of partitions

    @property
    def partitions(self) -> int:
        return max(self.ends, default=0) + 1


def look_at(source: StateView, view: View) -> CopySeen | None:
    rows = source.mark(view.topic)
    if not rows:
        return None
    ends = {partition: end for *_, partition, end in rows if partition is not None}
    topic_id, warm, *_ = rows[0]
    return CopySeen(topic_id, bool(warm), ends)


class CopiedTopic:
    def __init__(self, view: View, seen: CopySeen) -> None:
        self.view = view
        self.topic_id = seen.topic_id
        # a topic that is made anew is another log, of which no earlier id tells
        name = f"{view.topic} {seen.topic_id}"
        self._name_sum = crc32(name.encode())
        layout = Layout({name: seen.partitions})
        self.scope = Scope(layout, None)
        self.now = LogPosition(seen.ends.get(place, 0) for place in self.scope.places)

    def is_in(self, seen: CopySeen) -> bool:
        return self.topic_id == seen.topic_id and len(self.scope.places) >= seen.partitions

    def begin(self) -> LogPosition:
        return LogPosition([0] * len(self.scope.places))

    def position_after(self, id_: str) -> LogPosition:
        try:
            given = read_id(id_)
            if len(given.offsets.get(self._name_sum, ())) > len(self.scope.places):
                raise warming(self.view)
            found = self.scope.offsets_of(given)
        except BadPosition:
            raise Problem(
                400,
                "bad_event_id",
                f"this is no id of a stream of {self.view.name}: copy the last `id:` whole, or "
                "leave it out",
            ) from None
        if not found:
            raise Problem(
                410,
                "position_gone",
                f"this id is not of {self.view.topic} as it is now: begin anew without it",
            )
        return LogPosition(found.get(place, 0) for place in self.scope.places)


def warming(view: View) -> Problem:
    return Problem(
        503,
        "warming",
        f"{view.name}: its rows are still being read from Kafka; ask again",
        headers=retry_after(1),
    )
