"""Which topics can be widened, and why the others cannot. Pure."""

from local_stack.terminal.errors import StackError
from shared.flow_table import Flow

_COMPACTED = "compact"


def refuse_what_cannot_be(flow: Flow, topic: str, now: int | None, to: int) -> None:
    """`now`: how many partitions it has; None: Kafka has no such topic."""
    config = {one.name: one.config for one in flow.topics()}
    ingest = flow.posted_topics
    if topic not in config:
        raise StackError(f"the flow has no topic {topic!r}", f"it can be: {', '.join(ingest)}")
    if topic in flow.event_topics or any(topic == row.topic for row in flow.all_events):
        raise StackError(
            f"{topic} cannot be widened: its events are kept for ever, and whoever reads them all "
            "again, as a rebuild does, would meet those of an entity in two partitions, without "
            "their order",
            "give the events a topic of another name (`topic_name` in the row), or widen the "
            "ingest topics before it",
        )
    if _COMPACTED in config[topic].get("cleanup.policy", ""):
        raise StackError(
            f"{topic} cannot be widened: it is compacted, and what a key had in its old partition "
            "would stay there for ever, beside what it gets in its new one",
            "docs/operations.md says how it is made anew, of TOPIC_WIDENED",
        )
    if topic not in ingest:
        raise StackError(
            f"{topic} cannot be widened: jobs write to it, and nothing holds those back meanwhile",
            f"it can be: {', '.join(ingest)}",
        )
    if now is None:
        raise StackError(f"Kafka has no topic {topic} yet", "start the stack with: ./headrace up")
    if to < now:
        raise StackError(
            f"{topic} has {now} partitions, and Kafka takes none away again",
            f"choose more than {now} with --to",
        )
