"""Until when an entity waits for the result of an action: fold writes that as a record beside the
order, and the record comes back as a payload when the time is over (`shared/actions`). Pure.

Ids follow from the igniting event's, so whoever folds it again writes the same ones.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

import orjson

from shared.actions.action import Action, Asked, Deadline
from shared.events import envelope
from shared.events.envelope import EventRecord, Header
from shared.folding.emissions import KEPT_BYTES_MAX
from shared.ids import derived_event_id, full_id, tenant_of
from shared.model import Endpoint
from shared.timestamps import to_rfc3339


def records(
    actions: Sequence[Action], record: EventRecord, emitted: Sequence[EventRecord], version: int
) -> Iterator[EventRecord]:
    """`actions`: those that the entity of `record` waits for. `version`: of its state, when it has
    taken the record in. ValueError where an igniting event is too large."""
    for action in actions:
        for asked in (record, *emitted):
            if asked.type == action.ignited_by:
                yield _record(action, record, asked, version)


def _record(action: Action, record: EventRecord, asked: EventRecord, version: int) -> EventRecord:
    its_id = derived_event_id("deadline", action.name, record.entity_id, asked.id)
    told: Asked = {
        "id": asked.id,
        "type": asked.type,
        "entity_id": asked.entity_id,
        "time_ms": asked.time_ms,
        "arrived_ms": asked.arrived_ms,
        "data": asked.data,
    }
    data: Deadline = {
        "entity": str(action.entity),
        "id": record.entity_id,
        "version": version,
        "asked": told,
    }
    if len(orjson.dumps(data)) > KEPT_BYTES_MAX:
        raise ValueError(
            f"{asked.type} ignites {action.name}, which has a time limit: {KEPT_BYTES_MAX} bytes "
            "may be"
        )
    return EventRecord(
        position=record.position,
        # one of its own: while it waits, nothing else of the entity does
        entity_id=full_id(tenant_of(record.entity_id), its_id),
        id=its_id,
        type=action.deadline,
        time_ms=asked.time_ms,
        arrived_ms=asked.arrived_ms,
        origin=record.position,
        attempt=0,
        data=dict(data),
        cause=asked.id,
    )


def at_version(
    emitted: Iterable[EventRecord], actions: Iterable[Action], version: int
) -> Iterator[EventRecord]:
    """The events of a refold, with its version in their deadlines: it counts versions for
    itself."""
    names = {action.deadline for action in actions}
    for record in emitted:
        if record.type in names:
            yield record._replace(data={**record.data, "version": version})
        else:
            yield record


def value_and_headers(record: EventRecord, endpoint: Endpoint) -> tuple[bytes, list[Header]]:
    """As a payload."""
    value, tenant = orjson.dumps(record.data), tenant_of(record.entity_id)
    headers = [
        (envelope.SPEC_VERSION, b"1.0"),
        (envelope.ID, record.id.encode()),
        (envelope.TYPE, endpoint.payload_type.encode()),
        (envelope.SOURCE, b"/fold"),
        (envelope.TIME, to_rfc3339(record.time_ms).encode()),
        (envelope.PAYLOAD_SHA256, sha256(value).hexdigest().encode()),
        (envelope.CONTENT_TYPE, b"application/json"),
    ]
    return value, [*headers, *([(envelope.TENANT, tenant.encode())] if tenant else [])]
