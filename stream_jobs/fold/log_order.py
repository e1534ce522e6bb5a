"""The events of each entity in the order of the log. Pure.

Spark may reorder rows on their way through the shuffle (a sort that spills does), and the parts of
a bucket come in any order. So no order is relied upon but this one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from shared.events.envelope import EventRecord
from stream_jobs.state.bulk_map_state import Key


def in_log_order(
    records: Mapping[str, Iterable[EventRecord]], folded_by: Mapping[str, Iterable[str]]
) -> dict[Key, list[EventRecord]]:
    """The records by entity and id: those that its fold reads."""
    ordered: dict[Key, list[EventRecord]] = defaultdict(list)
    for entity_id, unordered in records.items():
        for record in sorted(unordered):
            for entity in folded_by[record.type]:
                ordered[entity, entity_id].append(record)
    return dict(ordered)
