from typing import TYPE_CHECKING, Any

from local_stack.terminal.output import Output, OutputOption, say_found
from shared.topic_names import CREDENTIAL_TOPIC, JOB_ORDER_TOPIC, JOB_STATUS_TOPIC

if TYPE_CHECKING:
    from shared.flow_table import Flow


def flow(output: OutputOption = Output.TABLE) -> None:
    """Draw which event ignites what next.

    Example: ./headrace flow
    """
    from local_stack.machine.settings_check import chosen_flow

    chosen = chosen_flow()
    say_found(document(chosen), picture(chosen), output)


def document(flow: "Flow") -> dict[str, Any]:
    return {
        "endpoints": [
            {
                "name": e.name,
                "topic": e.topic,
                "emits": e.emits,
                "master": e.master,
                "states": e.states,
                "lookups": [lookup.name for lookup in e.lookups],
            }
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
        "actions": [
            {
                "name": a.name,
                "ignited_by": a.ignited_by,
                "topic": flow.topic_igniting(a),
                "group": a.group,
                "answered_at": a.answered_at,
                "within_s": a.within_s,
                "entity": a.entity,
            }
            for a in flow.actions
        ],
        "tables": [
            {
                "name": t.name,
                "topic": t.topic,
                "key": t.key,
                "valid_from": t.valid_from,
                "source": str(t.source) if t.source else None,
            }
            for t in flow.tables
        ],
        "jobs": [job._asdict() for job in flow.jobs()],
        "topics": [topic._asdict() for topic in flow.topics()],
    }


def picture(flow: "Flow") -> str:
    """As text: what ignites each job, and what it emits when it is done."""

    def marked(topic: str) -> str:
        return f"{topic} (at most once)" if topic in flow.at_most_once_topics else topic

    lines = ["POST /v1/<endpoint>/<id>"]
    lines += [f"  gateway ─▶ {topic}" for topic in flow.posted_topics]
    for job in flow.jobs():
        lines += ["", f"{job.name}: {job.does}"]
        lines += [f"  ignited by  {topic}" for topic in job.ignited_by]
        lines += [f"  looks up    {topic}" for topic in job.looks_up]
        lines += [f"  asks        GET {url}" for url in job.asks]
        lines += [f"  emits       {marked(topic)}" for topic in job.emits]
        lines += [f"  waits in    {topic}" for topic in job.waits_in]
        lines += [f"  parks in    {topic}" for topic in job.parks_in]
    for action in flow.actions:
        lines += ["", f"{action.name}: somebody else's code, in the consumer group {action.group}"]
        lines += [f"  ignited by  {flow.topic_igniting(action)} ({action.ignited_by})"]
        lines += [f"  answers at  POST /v1/{action.answered_at}/<id>"]
        if action.within_s:
            lines += [f"  within      {action.within_s:g} s, or else {action.timed_out}"]
    for table in flow.sourced_tables:
        lines += ["", f"{table.name}: master data of yours, which the relay's process reads"]
        lines += [f"  comes from  {table.source}", f"  emits       {table.topic}"]
    lines += ["", f"each job tells how it is on {JOB_STATUS_TOPIC}; GET /health shows it"]
    lines += [f"and pauses where {JOB_ORDER_TOPIC} says so: ./headrace jobs"]
    lines += [f"who may ask the gateway stands on {CREDENTIAL_TOPIC}"]
    return "\n".join(lines)
