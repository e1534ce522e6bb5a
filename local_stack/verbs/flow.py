from typing import TYPE_CHECKING, Any

from local_stack.terminal.output import Output, OutputOption, say_found

if TYPE_CHECKING:
    from shared.topology import Flow


def flow(output: OutputOption = Output.TABLE) -> None:
    """Draw which event ignites what next.

    Example: ./headrace flow
    """
    from local_stack.machine.settings_check import chosen_flow

    chosen = chosen_flow()
    say_found(document(chosen), chosen.picture(), output)


def document(flow: "Flow") -> dict[str, Any]:
    return {
        "endpoints": [
            {"name": e.name, "topic": e.topic, "emits": e.emits, "master": e.master}
            for e in flow.endpoints
        ],
        "event_types": [
            {"name": t.name, "topic": t.topic, "completion_topic": t.completion_topic}
            for t in flow.event_types
        ],
        "entities": [
            {
                "name": e.name,
                "topic": e.topic,
                "folds": e.folds,
                "deleted_by": e.deleted_by,
                "emits": e.emits,
            }
            for e in flow.entities
        ],
        "aggregates": [
            {"name": a.name, "topic": a.topic, "members": a.members} for a in flow.aggregates
        ],
        "jobs": [job._asdict() for job in flow.jobs()],
        "topics": [topic._asdict() for topic in flow.topics()],
    }
