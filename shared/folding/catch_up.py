"""An entity that is folded anew while its published state still stands. Pure.

Nobody sees it until it contains what the published snapshot contains; then it takes its place, with
a version above. What was emitted on the way there has been emitted long ago.
"""

from collections.abc import Collection, Mapping

from shared.events.envelope import Position
from shared.folding.snapshot import Snapshot
from shared.model import Entity


def folded_anew(
    entity: Entity, entity_id: str, published: Snapshot, topics: Collection[str]
) -> Snapshot:
    """Where it begins. `topics`: those that the entity reads today."""
    behind = {
        log: offset
        for log, offset in published.positions.items()
        if log.rpartition("/")[0] in topics
    }
    return Snapshot(entity.initial(entity_id), version=published.version, behind=behind)


def has_caught_up(now: Snapshot) -> bool:
    return all(now.positions.get(log, -1) >= offset for log, offset in now.behind.items())


def is_within(origin: Position, behind: Mapping[str, int]) -> bool:
    """Whether the published snapshot has seen what stands there."""
    return origin.offset <= behind.get(f"{origin.topic}/{origin.partition}", -1)
