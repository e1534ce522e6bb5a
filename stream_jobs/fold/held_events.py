"""What came for an entity while it is folded anew elsewhere."""

from collections.abc import Sequence

import orjson

from shared.events import envelope
from shared.events.envelope import EventRecord, Position
from stream_jobs.state.bulk_map_state import Key, ManyStates


class HeldEvents:
    def __init__(self, states: ManyStates) -> None:
        self._states = states

    def of(self, key: Key) -> list[EventRecord]:
        (stored,) = self._states.get([_held(key)])
        return [
            envelope.event_of(Position(*place), fields)
            for place, fields in orjson.loads(stored or b"[]")
        ]

    def put(self, key: Key, records: Sequence[EventRecord]) -> None:
        if records:
            held = [(list(record.position), envelope.event_fields(record)) for record in records]
            self._states.put({_held(key): orjson.dumps(held)})
        else:
            self._states.remove([_held(key)])


def _held(key: Key) -> Key:
    """No entity has such a name."""
    return f"{key[0]} held", key[1]
