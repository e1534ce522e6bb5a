"""What waits, and an operator's orders: that it is tried at once, or given up. With its audit."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from clients.kafka.records import plain
from clients.postgres.store import judged_errors
from desk.letters import render
from desk.letters.selection import Selection
from desk.letters.service import Desk
from desk.waiting.lines import Stage, WaitingLine, lanes_of
from stream_jobs.waiting.codec import Ordered
from stream_jobs.waiting.line_key import entity_of, keys_meant

_AUDITED = {"try": "try what waits", "give_up": "give up what waits"}


class NobodyWaitsError(Exception):
    """Nobody waits of those that were asked for."""


class Page(NamedTuple):
    entities: list[dict[str, Any]]
    next: str | None  # to go on after


class Waiting:
    """KafkaAwayError or StoreAwayError where a server that the answer needs is not there."""

    def __init__(self, desk: Desk, stage: Stage | None = None) -> None:
        """`stage`: of it alone."""
        self._book = desk.book
        lanes = lanes_of(desk)
        self._lanes = lanes if stage is None else {stage: lanes[stage]}

    def page(self, limit: int, after: str | None = None, reason: str | None = None) -> Page:
        """Lines in the order of their ids; all lines of an id are on the same page."""
        known = [line for line in self._known(reason) if after is None or line.name > after]
        known.sort(key=lambda line: (line.name, line.stage, line.place))
        shown = known[:limit]
        shown += [line for line in known[limit:] if line.name == shown[-1].name]
        more = len(known) > len(shown)
        return Page([line.row() for line in shown], shown[-1].name if more else None)

    def of(self, entity_id: str) -> dict[str, Any] | None:
        """None where none of it waits."""
        return next((line.row() for line in self._known() if line.key == entity_id), None)

    def all_of(self, entity_id: str) -> list[dict[str, Any]]:
        """All its lines, in each stage."""
        known = sorted(self._known(), key=lambda line: (line.stage, line.key))
        return [line.row() for line in known if entity_of(line.key) == entity_id]

    def show(self, name: str) -> dict[str, Any]:
        """With what comes first, and holds up the others. `name` is that of an entity, or of what
        waits alone behind it."""
        line = min(_meant(name, self._known()), key=lambda line: (line.stage, line.key))
        record = self._lanes[line.stage].record(line)
        headers = [] if record is None else record.headers
        return {
            **line.row(),
            "place": str(line.place),
            "headers": [[name, plain(value)] for name, value in headers],
            "payload_bytes": None if record is None else render.bytes_shown(record.value),
        }

    def order(self, what: Ordered, names: Sequence[str], reason: str | None, by: str) -> int:
        """To how many entities: those that are named, or all that wait for this reason."""
        known = self._known(reason)
        named = [line for name in names for line in _meant(name, known)]
        lines = [*dict.fromkeys(named if names else sorted(known, key=lambda line: line.key))]
        meant = [*dict.fromkeys(entity_of(line.key) for line in lines)]
        with judged_errors(), self._book.connection.transaction():
            for stage, lane in self._lanes.items():
                if own := [line for line in lines if line.stage == stage]:
                    lane.order(what, own)
            if meant:
                of_one = meant[0] if len(meant) == 1 else None
                self._book.note(
                    by, _AUDITED[what], len(meant), Selection(cause=reason, entity_id=of_one)
                )
        return len(meant)

    def _known(self, reason: str | None = None) -> list[WaitingLine]:
        lines = [line for lane in self._lanes.values() for line in lane.lines()]
        return [line for line in lines if reason in (None, line.reason)]


def _meant(name: str, known: Sequence[WaitingLine]) -> list[WaitingLine]:
    keys = keys_meant(name, dict.fromkeys(line.key for line in known))
    if not keys:
        raise NobodyWaitsError(f"no payload of {name!r} waits")
    return [line for key in keys for line in known if line.key == key]
