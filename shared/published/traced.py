"""Which topics tell of the way of a payload whose POST is traced. Pure."""

from shared.flow_table import Flow
from shared.published.ledger import lanes_of_events, lanes_of_payloads
from shared.topic_names import DELIVERY_TOPIC


def traced(flow: Flow) -> tuple[str, ...]:
    topics = (
        *flow.event_topics,
        *(entity.topic for entity in flow.entities),
        *flow.completion_topics,
        *lanes_of_payloads(flow),
        *lanes_of_events(flow),
        DELIVERY_TOPIC,
    )
    return tuple(dict.fromkeys(topics))
