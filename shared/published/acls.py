"""What each application may do in Kafka: the least that it works with, derived from the flow."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from shared import consumer_groups as groups
from shared.flow_table import Flow, Job
from shared.master_data import TopicSource
from shared.published.ledger import lanes_of_events, lanes_of_payloads
from shared.published.traced import traced
from shared.topic_names import (
    CREDENTIAL_TOPIC,
    DELIVERY_TOPIC,
    HOOK_TOPIC,
    JOB_ORDER_TOPIC,
    JOB_STATUS_TOPIC,
    REPEAT_TOPIC,
    again_topic,
    gate_topic,
    master_topic,
    retry_topic,
    wake_topic,
)

ResourceKind = Literal["topic", "group", "cluster"]
AclOperation = Literal[
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "DESCRIBE",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
]
CLUSTER = "kafka-cluster"
_DESK_GROUPS = (groups.DESK, groups.MASTER_VIEW, groups.of_job("enrich"))


class Acl(NamedTuple):
    """READ and WRITE include DESCRIBE."""

    application: str
    operation: AclOperation
    kind: ResourceKind
    name: str


def acls(flow: Flow, *, traces: bool = False) -> list[Acl]:
    """`traces`: the relay tells a collector of payloads that are traced."""
    every = [topic.name for topic in flow.topics()]
    return [
        *_gateway(flow, every),
        *_jobs(flow),
        *_relay(flow),
        *(_traces(flow) if traces else ()),
        *_topics(every),
        *_operator(every),
        *_desk(flow),
        *_outside(flow),
    ]


def _gateway(flow: Flow, every: list[str]) -> Iterable[Acl]:
    written = flow.posted_topics
    states = [row.topic for row in (*flow.with_state, *flow.views)]
    # what a fresh state is folded from, what event streams show, and what becomes of a payload
    # whose POST waits for it
    read = [*states, *flow.event_topics, JOB_STATUS_TOPIC, CREDENTIAL_TOPIC]
    read += [*lanes_of_payloads(flow), *lanes_of_events(flow), *_of_one_payload(flow)]
    yield from _write("gateway", written)
    yield from _on_topics("gateway", "READ", dict.fromkeys(read))
    # /health tells what is missing and how much lies in the lanes
    others = [topic for topic in every if topic not in (*written, *read)]
    yield from _on_topics("gateway", "DESCRIBE", others)
    # and whether a topic can lose what is acknowledged, or deletes what a job has yet to read
    yield from _on_topics("gateway", "DESCRIBE_CONFIGS", every)
    yield Acl("gateway", "DESCRIBE", "cluster", CLUSTER)  # the sizes of logs
    jobs = [groups.of_job(job.name) for job in flow.jobs()]
    yield from _asks("gateway", groups.GATEWAY, groups.VIEW, *jobs)
    yield Acl("gateway", "READ", "group", groups.PEERS)


def _of_one_payload(flow: Flow) -> list[str]:
    """What `GET /events/{id}` looks at, beside the events: a bounded part, about the time at which
    it came."""
    gates = [gate_topic("enrich")] if flow.waits else []
    return [*flow.ingest_topics, *flow.completion_topics, DELIVERY_TOPIC, *gates]


def _jobs(flow: Flow) -> Iterable[Acl]:
    for job in flow.jobs():
        # what persist emits and parks goes through the outbox: the relay writes it
        emits = () if job.name == "persist" else (*job.emits, *job.waits_in, *job.parks_in)
        read = (*job.ignited_by, *job.looks_up, *job.starts_from)
        yield from _on_topics(job.name, "READ", read)
        yield from _write(job.name, (*emits, JOB_STATUS_TOPIC))
        yield from _on_topics(job.name, "READ", (JOB_ORDER_TOPIC,))
        yield from _asks(job.name, groups.ORDERS)
        # publishes its progress as the offsets of this group
        yield Acl(job.name, "READ", "group", groups.of_job(job.name))
        if job.looks_up:
            view = groups.HOOKS if job.name == "forward" else groups.MASTER_VIEW
            yield from _asks(job.name, view)
        yield from _gates(job, flow)
        yield from _last_word(job.name)


def _gates(job: Job, flow: Flow) -> Iterable[Acl]:
    """enrich and retry look how far the other one is; and enrich whether anything waits that the
    flow has no job for any more."""
    if job.name == "enrich":
        yield from _asks("enrich", groups.GATES, groups.of_job("retry"))
        if not flow.waits:  # else it looks them up
            yield from _on_topics("enrich", "READ", (gate_topic("enrich"), retry_topic("enrich")))
    elif job.name == "retry":
        yield from _asks("retry", groups.GATES, groups.of_job("enrich"))
        yield Acl("retry", "READ", "group", groups.of_job("wake"))
        enrich = flow.job("enrich")
        yield from _on_topics("retry", "DESCRIBE", enrich.ignited_by)
        # Kafka lets who may delete a topic delete records: what is done with goes
        yield from _on_topics("retry", "DELETE", enrich.waits_in)


def _relay(flow: Flow) -> Iterable[Acl]:
    persist = flow.job("persist")
    masters = [table.topic for table in flow.published_tables]
    # what an operator sends on again leaves through the outbox, too: to three jobs. So do
    # events that are corrected since a repeat of them counted twice
    again = [again_topic("enrich"), again_topic("forward"), *flow.folded_topics]
    again += [row.topic for row in flow.all_events]
    if flow.waits:
        again.append(wake_topic("enrich"))
    written = (*persist.emits, *persist.parks_in, *masters, *again, JOB_STATUS_TOPIC)
    yield from _write("relay", written)
    yield from _last_word("relay")
    yield from _ledger(flow)
    if read := [row.source.topic for row in flow.tables if isinstance(row.source, TopicSource)]:
        yield from _on_topics("relay", "READ", read)
        yield from _asks("relay", groups.SOURCES)


def _ledger(flow: Flow) -> Iterable[Acl]:
    """Kept by the relay's process."""
    told = [*lanes_of_payloads(flow), *([REPEAT_TOPIC] if flow.entities else [])]
    yield from _on_topics("relay", "READ", told)
    logs = [*flow.ingest_topics, *flow.event_topics]
    yield from _on_topics("relay", "DESCRIBE", logs)
    jobs = [job.name for job in flow.jobs() if job.name in ("enrich", "fold", "persist")]
    yield from _asks("relay", groups.LEDGER, *map(groups.of_job, jobs))


def _traces(flow: Flow) -> Iterable[Acl]:
    known = {one.name for one in _relay(flow) if one.operation == "READ"}
    yield from _on_topics("relay", "READ", (one for one in traced(flow) if one not in known))
    yield from _asks("relay", groups.TRACES)


def _topics(every: list[str]) -> Iterable[Acl]:
    for operation in ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"):
        yield from _on_topics("topics", operation, every)


def _operator(every: list[str]) -> Iterable[Acl]:
    """`./headrace` from a terminal: tail, demo, doctor, credentials, hooks."""
    yield from _on_topics("operator", "READ", every)
    yield from _on_topics("operator", "DESCRIBE_CONFIGS", every)
    written = [CREDENTIAL_TOPIC, HOOK_TOPIC, JOB_ORDER_TOPIC, again_topic("forward")]
    yield from _write("operator", written)
    yield from _asks("operator", groups.OPERATOR, groups.DEMO, *_DESK_GROUPS)


def _desk(flow: Flow) -> Iterable[Acl]:
    """What it sends on goes through the outbox, but for webhooks, credentials and jobs' orders."""
    parked = dict.fromkeys(lane for job in flow.jobs() for lane in job.parks_in)
    looked_at = [*parked, *map(master_topic, flow.master_tables)]
    looked_at += [HOOK_TOPIC, gate_topic("forward"), DELIVERY_TOPIC, CREDENTIAL_TOPIC]
    looked_at += [JOB_STATUS_TOPIC, JOB_ORDER_TOPIC]
    looked_at += flow.job("forward").ignited_by  # to replay
    # what became of a payload
    looked_at += [*_of_one_payload(flow), *lanes_of_payloads(flow)]
    yield from _on_topics("desk", "READ", dict.fromkeys(looked_at))
    # how fast records come
    written = [JOB_STATUS_TOPIC, JOB_ORDER_TOPIC, HOOK_TOPIC, CREDENTIAL_TOPIC]
    written.append(again_topic("forward"))
    known = {*looked_at, *written}
    others = [topic.name for topic in flow.topics() if topic.name not in known]
    yield from _on_topics("desk", "DESCRIBE", others)
    yield from _write("desk", written)
    yield from _asks("desk", *_DESK_GROUPS)


def _outside(flow: Flow) -> Iterable[Acl]:
    """Whoever carries actions out. Their results come by POST."""
    for action in flow.actions:
        yield Acl(action.group, "READ", "topic", flow.topic_igniting(action))
        yield Acl(action.group, "READ", "group", action.group)


def _last_word(application: str) -> Iterable[Acl]:
    """The health check of its container."""
    yield Acl(application, "READ", "topic", JOB_STATUS_TOPIC)
    yield from _asks(application, groups.HEALTHCHECK)


def _write(application: str, topics: Iterable[str]) -> Iterable[Acl]:
    yield from _on_topics(application, "WRITE", topics)
    yield Acl(application, "IDEMPOTENT_WRITE", "cluster", CLUSTER)


def _asks(application: str, *its: str) -> Iterable[Acl]:
    """Consumers that are told what to read look for their group all the same."""
    return [Acl(application, "DESCRIBE", "group", group) for group in its]


def _on_topics(application: str, operation: AclOperation, topics: Iterable[str]) -> Iterable[Acl]:
    return [Acl(application, operation, "topic", topic) for topic in topics]
