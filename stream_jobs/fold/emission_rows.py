"""Where what an entity emits goes: events to their topics, deadlines to that of their endpoint."""

from clients.kafka.records import Outgoing, outgoing_event
from shared.events.envelope import EventRecord
from shared.flow_table import Flow
from shared.folding import deadlines


class EmissionRows:
    def __init__(self, flow: Flow) -> None:
        self._topics = {row.name: row.topic for row in flow.event_types}
        self._deadlines = {row.name: row for row in flow.endpoints if not row.is_open}

    def of(self, record: EventRecord) -> Outgoing | None:
        """None where the flow has no such type any more."""
        if topic := self._topics.get(record.type):
            return outgoing_event(topic, record)
        if endpoint := self._deadlines.get(record.type):
            key = record.entity_id.encode()
            return Outgoing(endpoint.topic, key, *deadlines.value_and_headers(record, endpoint))
        return None
