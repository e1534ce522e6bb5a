"""The flow as AsyncAPI 3.0: each topic a channel, and per job what it reads and writes."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from shared.flow_table import Flow, Topic
from shared.published.schemas.by_topic import messages
from shared.published.schemas.shapes import RecordSchema
from shared.topic_names import (
    CREDENTIAL_TOPIC,
    HOOK_TOPIC,
    JOB_ORDER_TOPIC,
    JOB_STATUS_TOPIC,
    again_topic,
)

_BINDING = "0.5.0"
_NUMBERS = ("retention.ms", "retention.bytes", "delete.retention.ms", "max.message.bytes")


SUFFIX = ".schema.json"


def file_of(topic: str, message: RecordSchema, known: list[RecordSchema]) -> str:
    """The file with the schema of its value. `known`: all messages of the topic."""
    return f"{topic}.{message.name}{SUFFIX}" if len(known) > 1 else f"{topic}{SUFFIX}"


def document(flow: Flow, version: str, files: set[str]) -> dict[str, Any]:
    """`files`: those that hold the schema of a message's value."""
    known = messages(flow)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Headrace",
            "version": version,
            "description": "Which event ignites what next. `receive` is what ignites a job or what "
            "it looks up, `send` is what it emits. All keys are text; records of one key are in "
            "order. Made by `./headrace contracts`.",
        },
        "defaultContentType": "application/json",
        "channels": {
            topic.name: _channel(topic, known[topic.name], files) for topic in flow.topics()
        },
        "operations": {
            f"{of.who}.{of.action}.{of.topic}": _operation(of) for of in operations(flow)
        },
    }


def _channel(topic: Topic, known: list[RecordSchema], files: set[str]) -> dict[str, Any]:
    return {
        "address": topic.name,
        "summary": topic.why,
        "messages": {
            message.name: _message(message, file_of(topic.name, message, known), files)
            for message in known
        },
        "bindings": {
            "kafka": {
                "topicConfiguration": {k: _setting(k, v) for k, v in topic.config.items()},
                "bindingVersion": _BINDING,
            }
        },
    }


def _message(message: RecordSchema, file: str, files: set[str]) -> dict[str, Any]:
    described = {
        "summary": message.says,
        "headers": message.headers,
        "bindings": {"kafka": {"key": message.key, "bindingVersion": _BINDING}},
    }
    if message.value is None:
        return {**described, "contentType": "application/octet-stream"}
    if message.content_type:
        described["contentType"] = message.content_type
    return {**described, "payload": {"$ref": f"./{file}"} if file in files else message.value}


def _setting(name: str, value: str) -> Any:
    if name == "cleanup.policy":
        return value.split(",")
    return int(value) if name in _NUMBERS else value


class Operation(NamedTuple):
    who: str
    action: str
    topic: str
    why: str


def operations(flow: Flow) -> Iterator[Operation]:
    """Who reads and who writes each topic; of consumers outside those that carry out an action."""
    ingest = flow.posted_topics
    state = [row.topic for row in flow.with_state]
    yield from _each("gateway", "send", ingest, "takes payloads by POST")
    yield from _each("gateway", "receive", state, "answers GET /state")
    yield from _each("gateway", "receive", [JOB_STATUS_TOPIC], "answers GET /health")
    yield from _each("gateway", "receive", [CREDENTIAL_TOPIC], "knows who is asking")
    yield from _each("operator", "send", [CREDENTIAL_TOPIC], "adds and revokes with ./headrace")
    yield from _each("operator", "send", [HOOK_TOPIC], "adds and changes with ./headrace")
    yield from _each("operator", "send", [JOB_ORDER_TOPIC], "pauses and rebuilds jobs")
    for job in flow.jobs():
        yield from _each(job.name, "receive", job.ignited_by, f"is ignited: {job.does}")
        yield from _each(job.name, "receive", job.looks_up, "looks up the last of each key")
        yield from _each(job.name, "send", job.emits, "emits")
        yield from _each(job.name, "send", job.waits_in, "leaves here what cannot be done yet")
        yield from _each(job.name, "send", job.parks_in, "parks here what never can be done")
        yield from _each(job.name, "receive", [JOB_ORDER_TOPIC], "knows whether it is to pause")
        yield from _each(job.name, "send", [JOB_STATUS_TOPIC], "tells how it is")
    for action in flow.actions:
        carries = f"carries {action.name} out in the group {action.group}"
        yield from _each(action.name, "receive", [flow.topic_igniting(action)], carries)
        answers = flow.endpoint(action.answered_at)
        assert answers
        how = f"tells the result by POST to /v1/{answers.name}/{{id}}"
        yield from _each(action.name, "send", [answers.topic], how)
    tables = [table.topic for table in flow.published_tables]
    yield from _each("relay", "send", tables, "publishes what was committed")
    again = [again_topic("enrich"), again_topic("forward")]
    yield from _each("relay", "send", again, "brings back what is to be tried or corrected")
    yield from _each("relay", "send", [JOB_STATUS_TOPIC], "tells how it is")


def _each(who: str, action: str, topics: Iterable[str], why: str) -> Iterator[Operation]:
    return (Operation(who, action, topic, why) for topic in topics)


def _operation(of: Operation) -> dict[str, Any]:
    return {
        "action": of.action,
        "channel": {"$ref": f"#/channels/{of.topic}"},
        "summary": f"{of.who} {of.why}",
        "tags": [{"name": of.who}],
    }
