"""The sample's flow on topics of its own, one for each test that keeps a ledger of it."""

from dataclasses import replace

from shared.flow import FLOW as SAMPLE
from shared.flow_table import Flow


def _on_topics_of(name: str) -> Flow:
    return replace(
        SAMPLE,
        endpoints=tuple(
            replace(e, topic_name=f"ingest.{name}_{e.name}.v1") for e in SAMPLE.endpoints
        ),
        event_types=tuple(
            replace(t, topic_name=f"event.{name}_{t.name}.v1") for t in SAMPLE.event_types
        ),
    )


FLOWS = [f"ledger_{number}" for number in range(32)]
globals().update({name: _on_topics_of(name) for name in FLOWS})
