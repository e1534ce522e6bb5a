"""What is known of one payload, as the stages that it has come through. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from shared.events.envelope import Position
from shared.model import Fields
from shared.timestamps import to_rfc3339


class Payload(NamedTuple):
    """As it stands in the ingest log."""

    place: Position
    appended_ms: int
    endpoint: str
    entity_id: str  # with its tenant
    bytes: int


class StoredEvent(NamedTuple):
    id: str
    type: str
    entity_id: str
    time: str
    stored_at: str
    place: str  # in the event log
    origin: str  # of its payload
    revision: int
    saw: Fields | None


class Facts(NamedTuple):
    id: str
    payload: Payload | None
    events: Sequence[StoredEvent] = ()
    letters: Sequence[Fields] = ()
    # of the entity: what of its payloads waits, and why
    waiting: Fields | None = None
    # where enrich goes on in the payload's partition; None: it has not begun
    enrich_goes_on_at: int | None = None
    # how the log was searched, if the payload was not found
    searched: str = ""


def told(facts: Facts) -> Fields:
    now, why = _now(facts)
    return {"id": facts.id, "now": now, "why": why, "stages": [*_stages(facts)]}


def _now(facts: Facts) -> tuple[str, str]:
    parked = [letter for letter in facts.letters if letter["status"] == "parked"]
    if facts.events:
        count = len(facts.events)
        rows = "it is a row" if count == 1 else f"its events are {count} rows"
        return "stored", f"{rows} of headrace.event"
    if parked:
        cause, detail = parked[0]["cause"], parked[0]["detail"]
        return "parked", f"{cause}: {detail}; see ./headrace letters show {parked[0]['id']}"
    if facts.letters:
        status = facts.letters[0]["status"]
        return status, f"it was a dead letter, which is {status}"
    if facts.payload is None:
        return "unknown", f"no event and no dead letter has this id, and {facts.searched}"
    goes_on_at = facts.enrich_goes_on_at or 0
    before = facts.payload.place.offset - goes_on_at
    if before >= 0:
        return "accepted", f"enrich has not come to it yet: {before} records are before it"
    if facts.waiting is not None:
        its = facts.waiting
        return (
            "waits",
            f"payloads of {facts.payload.entity_id} wait: {its['reason']}, {its['detail']}; see "
            f"./headrace waiting show {its['entity_id']}",
        )
    return (
        "under_way",
        "enrich has read it, and no row has come of it: persist has still to store it, it waits "
        "alone, its types are not stored, or its enrichment dropped it",
    )


def _stages(facts: Facts) -> Iterator[dict[str, Any]]:
    if facts.payload is not None:
        its = facts.payload
        yield {
            "stage": "accepted",
            "at": to_rfc3339(its.appended_ms),
            "place": str(its.place),
            "endpoint": its.endpoint,
            "entity_id": its.entity_id,
            "bytes": its.bytes,
        }
    for letter in sorted(facts.letters, key=lambda one: one["parked_at"]):
        yield {
            "stage": "parked",
            "at": letter["parked_at"],
            "by": letter["stage"],
            "letter": letter["id"],
            "cause": letter["cause"],
            "detail": letter["detail"],
            "status": letter["status"],
        }
    for event in facts.events:
        saw = {"saw": event.saw} if event.saw else {}
        revision = {"revision": event.revision} if event.revision else {}
        yield {
            "stage": "enriched",
            "event": event.id,
            "type": event.type,
            "entity_id": event.entity_id,
            "time": event.time,
            "place": event.place,
            **revision,
            **saw,
        }
        yield {"stage": "stored", "event": event.id, "at": event.stored_at}
