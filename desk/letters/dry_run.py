"""What would become of a letter, if it were sent on again as it is or changed? Nothing is written:
the same pure functions as in the jobs say so. Pure."""

from typing import Any, NamedTuple

import orjson

from clients.kafka.records import Outgoing, Payload
from desk.letters.redrive_target import (
    ResendError,
    Rewrite,
    RowToStore,
    event_of,
    redrive_target,
)
from desk.prediction.fate import NO_PARTITION, SnapshotLookup, fate_of
from desk.prediction.states import StateTrial, states_after
from shared.events import envelope
from shared.events.envelope import Position
from shared.events.event_reader import EventReader, NoEvent
from shared.flow_table import Flow
from shared.model import Fields, MasterRows
from shared.published.dead_letters import Letter
from stream_jobs.enrich.enrich_payload import as_first_come
from stream_jobs.enrich.known import Ask, ask_nobody
from stream_jobs.persist.rows import DeadLetter


class Trial(NamedTuple):
    """`outcome`: 'event', 'dropped', 'row', 'parked', 'waits' or 'refused'."""

    outcome: str
    cause: str = ""
    detail: str = ""
    event: Fields | None = None
    states: tuple[StateTrial, ...] = ()

    def told(self) -> dict[str, Any]:
        return {**self._asdict(), "states": [state._asdict() for state in self.states]}


def try_again(
    flow: Flow,
    letter: Letter,
    attempt: int,
    change: Rewrite | None,
    master: MasterRows,
    snapshots: SnapshotLookup,
    ask: Ask = ask_nobody,
) -> Trial:
    try:
        way = redrive_target(flow, letter, attempt, change)
    except ResendError as refused:
        return Trial("refused", detail=str(refused))
    if isinstance(way, RowToStore):
        if isinstance(way.row, DeadLetter):
            return Trial("parked", way.row.reason, way.row.detail)
        event = event_of(letter)
        return Trial("row", event=envelope.event_fields(event) if event else None)
    if letter.payload == letter.origin:
        return _payload(flow, way, master, snapshots, ask)
    place = Position(letter.origin.topic, NO_PARTITION, 0)
    return _event(flow, place, way.key, way.value or b"", snapshots)


def _payload(
    flow: Flow, way: Outgoing, master: MasterRows, snapshots: SnapshotLookup, ask: Ask
) -> Trial:
    place = Position(way.topic, 0, 0)
    payload = as_first_come(Payload(place, way.key, way.value, way.headers, 0), flow.ingest_topics)
    fate = fate_of(flow, payload, master, snapshots, ask)
    if not fate.events:
        return Trial(fate.outcome, fate.cause, fate.detail)
    first, *more = fate.events
    return Trial(
        "event",
        detail=f"and {len(more)} more events" if more else "",
        event=orjson.loads(envelope.event_value(first)),
        states=states_after(flow, fate.events, snapshots).states,
    )


def _event(
    flow: Flow, place: Position, key: bytes | None, value: bytes, snapshots: SnapshotLookup
) -> Trial:
    try:
        record = EventReader.of(flow).read(place, key, value)
    except NoEvent as none:
        return Trial("parked", *none.args)
    states = states_after(flow, [record], snapshots).states
    return Trial("event", event=orjson.loads(value), states=states)
