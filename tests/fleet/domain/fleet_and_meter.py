"""Both domains in one flow, so that one stack runs both."""

import fleet
import meter

from shared.flow_table import Flow

FLOW = Flow(
    endpoints=(*fleet.FLOW.endpoints, *meter.FLOW.endpoints),
    event_types=(*fleet.FLOW.event_types, *meter.FLOW.event_types),
    entities=(*fleet.FLOW.entities, *meter.FLOW.entities),
)
