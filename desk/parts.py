"""The parts that records go through, told from the flow's table. Pure."""

from typing import NamedTuple

from shared.flow_table import Flow
from shared.topic_names import again_topic

GATEWAY, RELAY = "gateway", "relay"


class Part(NamedTuple):
    name: str
    does: str
    reads: frozenset[str]
    writes: frozenset[str]


def parts(flow: Flow) -> list[Part]:
    """In the order in which a payload meets them."""
    found = [Part(GATEWAY, "takes payloads", frozenset(), frozenset(flow.posted_topics))]
    for job in flow.jobs():
        # what persist emits and parks goes through the outbox: the relay writes it
        own = () if job.name == "persist" else (*job.emits, *job.waits_in)
        found.append(Part(job.name, job.does, frozenset(job.ignited_by), frozenset(own)))
        if job.name == "persist":
            sent_on = frozenset((*job.emits, again_topic("enrich")))
            does = "writes what the rows' transactions left for Kafka, and what is sent on again"
            found.append(Part(RELAY, does, frozenset(), sent_on))
    return found
