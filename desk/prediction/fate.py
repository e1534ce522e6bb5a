"""A payload -> what enrich would make of it now. Pure, but for what the domain's own code does."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import orjson

from clients.kafka.records import Outgoing, Payload
from shared.events import envelope
from shared.events.envelope import EventRecord, Position
from shared.events.event_reader import EventReader, NoEvent
from shared.flow_table import Flow
from shared.model import Fields, MasterRows
from shared.topic_names import breach_topic, dropped_topic, retry_topic
from stream_jobs.enrich.enrich_payload import enricher
from stream_jobs.enrich.known import Ask, ask_nobody

_BREACHES = breach_topic("enrich")
# state topic and key -> the snapshot that is known now
SnapshotLookup = Callable[[str, bytes], bytes | None]
NO_PARTITION = -1  # a place that no snapshot has passed


def no_snapshots(_topic: str, _key: bytes) -> None:
    return None


class Fate(NamedTuple):
    """`outcome`: 'event', or 'dropped', 'parked', 'waits', for which there is a cause."""

    outcome: str
    cause: str = ""
    detail: str = ""
    events: Sequence[EventRecord] = ()
    breach: Fields | None = None  # of the contract, where the endpoint lets it pass


def fate_of(
    flow: Flow,
    payload: Payload,
    master: MasterRows,
    snapshots: SnapshotLookup = no_snapshots,
    ask: Ask = ask_nobody,
) -> Fate:
    topics = flow.looked_at
    enrich = enricher(flow, lambda name, key: snapshots(topics[name], key.encode()), ask)
    made = enrich(payload, master)
    broken = [orjson.loads(one.value or b"{}") for one in made if one.topic == _BREACHES]
    return _fate(flow, made)._replace(breach=broken[0] if broken else None)


def _fate(flow: Flow, made: Sequence[Outgoing]) -> Fate:
    first = made[0]
    reason = envelope.text(first.headers, envelope.REASON)
    if reason is not None:
        outcome = "waits" if first.topic == retry_topic("enrich") else "parked"
        return Fate(outcome, reason, envelope.text(first.headers, envelope.DETAIL) or "")
    if first.topic == dropped_topic("enrich"):
        dropped = orjson.loads(first.value or b"{}")
        return Fate("dropped", dropped["reason"], dropped["detail"])
    read = EventReader.of(flow).read
    try:
        events = [
            read(Position(one.topic, NO_PARTITION, number), one.key, one.value or b"")
            for number, one in enumerate(made)
            if one.topic in flow.event_topics
        ]
    except NoEvent as none:  # enrich would write it, and fold would park it
        return Fate("parked", *none.args)
    return Fate("event", events=events)
