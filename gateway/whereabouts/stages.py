"""What is known of one payload, as the stages that it has come through. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gateway.whereabouts.facts import Event, Facts, Folded, Row, Waits
from shared.model import Fields
from shared.timestamps import to_rfc3339

Stage = dict[str, Any]
FORWARD = "forward"


def told(facts: Facts) -> Fields:
    now, why = _now(facts)
    return {"id": facts.id, "now": now, "why": why, "stages": [*_stages(facts)]}


def _now(facts: Facts) -> tuple[str, str]:
    if facts.spooled is not None and facts.payload is None:
        return (
            "spooled",
            "it is on this gateway's disk, and goes to Kafka by itself once that takes it",
        )
    parked = [letter for letter in facts.letters if letter["status"] == "parked"]
    stopped = next((one for one in parked if _says_it_stopped(facts, one)), None)
    if stopped is not None:
        cause, detail = stopped["cause"], stopped["detail"]
        return "parked", f"{cause}: {detail}; see ./headrace letters show {stopped['id']}"
    if facts.ended is not None:
        its = facts.ended
        return its.how, f"{its.by}: {its.reason}: {its.detail}"
    if facts.events:
        return _now_of_events(facts)
    if letters := of_its_way(facts.letters):
        status = letters[0]["status"]
        return status, f"it was a dead letter, which is {status}"
    if facts.payload is None:
        return "unknown", f"no event and no dead letter has this id, and {facts.searched}"
    before = facts.payload.place.offset - (facts.enrich_goes_on_at or 0)
    if before >= 0:
        return "accepted", f"enrich has not come to it yet: {before} records are before it"
    if facts.waits is not None:
        return "waits", _why_it_waits(facts.waits)
    beyond = f" ({facts.searched})" if facts.searched else ""
    return (
        "under_way",
        "enrich has read it, and no event, dead letter or waiting line has it"
        f"{beyond}: its event came later than was looked, or its enrichment dropped it",
    )


def of_its_way(letters: Iterable[Fields]) -> list[Fields]:
    """Without those of webhooks: what is parked of them is one hook's, and the event goes on."""
    return [one for one in letters if one["stage"] != FORWARD]


def _says_it_stopped(facts: Facts, letter: Fields) -> bool:
    """persist parks what comes again with other bytes, under the same id: whose letter that is,
    its place tells."""
    stage = letter["stage"]
    if stage == "persist" and facts.payload is not None and letter["payload"]:
        return bool(letter["payload"] == str(facts.payload.place))
    stored = _stored(facts)
    is_whole = stored > 0 and stored >= _count(facts)
    return stage in (("fold",) if is_whole else ("enrich", "fold", "persist"))


def _stored(facts: Facts) -> int:
    return sum(event.row is not None for event in facts.events)


def _count(facts: Facts) -> int:
    return max(len(facts.events), facts.parts or 0)


def _now_of_events(facts: Facts) -> tuple[str, str]:
    stored, count = _stored(facts), _count(facts)
    if stored == count:
        rows = "it is a row" if count == 1 else f"its {count} events are rows"
        return "stored", f"{rows} of headrace.event{_of_completions(facts)}"
    of = "its event is no row" if count == 1 else f"{stored} of its {count} events are rows"
    if facts.waits is not None:
        return "waits", f"{of}: {_why_it_waits(facts.waits)}"
    parked = [one["id"] for one in of_its_way(facts.letters) if one["status"] == "parked"]
    beyond = f"; see ./headrace letters show {parked[0]}" if parked else ""
    return "enriched", f"{of} of headrace.event: persist has still to store the rest{beyond}"


def _of_completions(facts: Facts) -> str:
    waiting = [one for one in facts.events if one.row and one.row.is_completed is False]
    return "; relay has still to send its completion" if waiting else ""


def _why_it_waits(waits: Waits) -> str:
    who = "it waits" if waits.is_first else f"it waits behind earlier ones of {waits.entity_id}"
    return (
        f"{who} for {waits.by}: {waits.reason}, {waits.detail}; see "
        f"./headrace waiting show {waits.entity_id}"
    )


def _stages(facts: Facts) -> Iterator[Stage]:
    """In the order of a payload's way; a stage that came several times, by its time."""
    yield from _of_payload(facts)
    parked = [*facts.letters]
    parked.sort(key=lambda one: str(one["parked_at"]))
    for letter in parked:
        yield {
            "stage": "parked",
            "at": letter["parked_at"],
            "by": letter["stage"],
            "letter": letter["id"],
            "cause": letter["cause"],
            "detail": letter["detail"],
            "status": letter["status"],
        }
    if facts.waits is not None:
        yield _waiting(facts.waits)
    folded: Mapping[str, list[Folded]] = {one.id: [] for one in facts.events}
    for state in facts.folded:
        folded[state.event_id].append(state)
    for event in facts.events:
        yield from _of_event(event, folded[event.id])
        for one in sorted(facts.deliveries, key=lambda one: one.at_ms):
            if one.event_id == event.id:
                at = to_rfc3339(one.at_ms)
                yield {"stage": "forwarded", "event": event.id, "at": at, **one.told}
    if facts.ended is not None:
        its = facts.ended
        yield {
            "stage": its.how,
            "at": to_rfc3339(its.at_ms),
            "by": its.by,
            "place": its.place,
            "cause": its.reason,
            "detail": its.detail,
        }


def _of_payload(facts: Facts) -> Iterator[Stage]:
    if facts.payload is None:
        if facts.spooled is not None:
            there = facts.spooled
            yield {
                "stage": "spooled",
                "at": to_rfc3339(there.since_ms),
                "place": there.topic,
                "entity_id": there.entity_id,
                "bytes": there.bytes,
            }
        return
    its = facts.payload
    if its.spooled_ms is not None:
        yield {"stage": "spooled", "at": to_rfc3339(its.spooled_ms), "place": its.place.topic}
    yield {
        "stage": "accepted",
        "at": to_rfc3339(its.appended_ms),
        "place": str(its.place),
        "endpoint": its.endpoint,
        "entity_id": its.entity_id,
        "bytes": its.bytes,
    }


def _waiting(waits: Waits) -> Stage:
    return {
        "stage": "waits",
        "by": waits.by,
        "cause": waits.reason,
        "detail": waits.detail,
        "entity_id": waits.entity_id,
        **(waits.told or {}),
        **({} if waits.is_first else {"behind": waits.behind or {}}),
    }


def _of_event(event: Event, folded: Sequence[Folded]) -> Iterator[Stage]:
    written = {"at": to_rfc3339(event.written_ms)} if event.written_ms else {}
    yield {
        "stage": "enriched",
        **written,
        "event": event.id,
        "type": event.type,
        **({"entity_id": event.entity_id} if event.entity_id else {}),
        **({"time": event.time} if event.time else {}),
        "place": event.place,
        **({"repeat_of": event.repeats} if event.repeats else {}),
        **({"revision": event.revision} if event.revision else {}),
        **({"saw": event.saw} if event.saw else {}),
    }
    for state in folded:
        yield {
            "stage": "folded",
            "event": event.id,
            "entity": state.entity,
            "entity_id": state.entity_id,
            "version": state.version,
            **({"at": state.at} if state.at else {}),
            **({} if state.is_exact else {"or_earlier": True}),
        }
    if event.row is not None:
        yield from _of_row(event.id, event.row)


def _of_row(event_id: str, row: Row) -> Iterator[Stage]:
    yield {
        "stage": "stored",
        "event": event_id,
        "at": row.stored_at,
        "table": "headrace.event",
        "row_key": row.key,
    }
    if row.is_completed:
        known = {"at": to_rfc3339(row.completed_ms)} if row.completed_ms else {}
        place = row.completion_place or row.completion_topic
        yield {"stage": "completed", "event": event_id, **known, "place": place}
