"""Where what an entity emits goes: events to their topics, deadlines to that of their endpoint."""

from clients.kafka.records import Outgoing, outgoing_events
from shared.events.envelope import EventRecord
from shared.flow_table import Flow
from shared.folding import deadlines


class EmissionRows:
    def __init__(self, flow: Flow) -> None:
        self._topics = flow.topics_by_type
        self._deadlines = {row.name: row for row in flow.endpoints if not row.is_open}

    def of(self, record: EventRecord) -> list[Outgoing]:
        """Nothing where the flow has no such type any more."""
        if topics := self._topics.get(record.type):
            return outgoing_events(topics, record)
        if endpoint := self._deadlines.get(record.type):
            key, written = record.entity_id.encode(), deadlines.value_and_headers(record, endpoint)
            return [Outgoing(endpoint.topic, key, *written)]
        return []
