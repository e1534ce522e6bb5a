"""What a change of an entity's state emits: drafts -> event records, the same ones each time. Pure.

An emission's id follows from what has caused it, so whoever folds the same event again (a replay, a
rebuild) emits the same event again, and whoever reads it can tell.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import orjson

from shared.contract import contract_of
from shared.events.envelope import EventRecord, event_fields, event_value
from shared.ids import (
    FULL_ID,
    FULL_ID_RULE,
    derived_event_id,
    full_id_within,
    tenant_of,
)
from shared.model import Draft, Entity, Event, EventType
from shared.timestamps import is_time_ms

# of a batch, for they stand in the snapshot; what is beyond would be lost only if a checkpoint were
# lost in the very moment in which its batch was being written
KEPT_BYTES_MAX = 256 * 1024


def records(
    entity: Entity,
    event_types: Mapping[str, EventType],
    cause: EventRecord,
    event: Event,
    drafts: Iterable[Draft],
) -> list[EventRecord]:
    """TypeError or ValueError where one of them cannot be an event."""
    counts: Counter[str] = Counter()
    found = []
    for draft in drafts:
        if not isinstance(draft, Draft):
            raise TypeError(f"{entity.name} derives {draft!r:.80}, not a Draft")
        if draft.type not in entity.may_emit(event.type):
            on = f" on {event.type!r}" if draft.type in entity.emits else ""
            raise ValueError(f"{entity.name} does not declare that it emits {draft.type!r}{on}")
        tenant = tenant_of(cause.entity_id)
        record = EventRecord(
            position=cause.position,
            entity_id=full_id_within(tenant, draft.entity_id or cause.entity_id),
            id=derived_event_id(
                *("emission", entity.name, cause.entity_id, cause.id, draft.type),
                str(counts[draft.type]),
            ),
            type=draft.type,
            time_ms=draft.time_ms,
            arrived_ms=event.arrived_ms,
            origin=cause.position,
            attempt=0,
            data=draft.data,
            cause=cause.id,
        )
        counts[draft.type] += 1
        found.append(_fit(record, event_types.get(draft.type), tenant))
    return found


def _fit(record: EventRecord, event_type: EventType | None, tenant: str) -> EventRecord:
    if not FULL_ID.fullmatch(record.entity_id) or tenant_of(record.entity_id) != tenant:
        raise ValueError(f"{record.type} for {record.entity_id[:200]!r}: {FULL_ID_RULE}")
    if event_type is not None:
        breach = event_type.data and contract_of(event_type.data).breach(record.data)
        if breach:
            raise ValueError(f"{record.type} breaks its contract: {breach.code}: {breach.detail}")
        record = record._replace(shape=event_type.shape)
    if not isinstance(record.data, dict):
        raise TypeError(f"{record.type} has data that is {type(record.data).__name__}, not dict")
    if not is_time_ms(record.time_ms):
        raise ValueError(f"{record.type}: its time is out of the years 1 to 9999")
    size = len(orjson.dumps([[[event_fields(record)]]]))  # as deep as it stands in a snapshot
    if size > KEPT_BYTES_MAX:
        raise ValueError(f"{record.type} has {size} bytes, {KEPT_BYTES_MAX} may be")
    return record


def last(emitted: Sequence[EventRecord]) -> list[EventRecord]:
    """As many of the newest as a snapshot has room for."""
    kept: list[EventRecord] = []
    size = 0
    for record in reversed(emitted):
        size += len(event_value(record))
        if size > KEPT_BYTES_MAX:
            break
        kept.append(record)
    return kept[::-1]
