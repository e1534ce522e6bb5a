from dataclasses import replace

from shared.flow import FLOW
from shared.flow_table import Flow
from shared.model import Endpoint, EventType
from shared.published.acls import Acl, acls
from shared.topic_names import (
    CREDENTIAL_TOPIC,
    HOOK_TOPIC,
    JOB_ORDER_TOPIC,
    JOB_STATUS_TOPIC,
    again_topic,
    master_topic,
    wake_topic,
)

WIDER = replace(
    FLOW,
    endpoints=(*FLOW.endpoints, Endpoint("alarm", enrich=print, emits=("alarm",))),
    event_types=(*FLOW.event_types, EventType("alarm")),
)


def names(flow: Flow, application: str, *operations: str) -> set[str]:
    return {
        acl.name
        for acl in acls(flow)
        if (acl.application, acl.kind) == (application, "topic") and acl.operation in operations
    }


def test_the_gateway_writes_payloads_and_nothing_else() -> None:
    assert names(FLOW, "gateway", "WRITE") == {endpoint.topic for endpoint in FLOW.endpoints}


def test_the_gateway_reads_payloads_and_what_becomes_of_them_and_no_master_data() -> None:
    read = names(FLOW, "gateway", "READ")
    lanes = {"retry.enrich.v1", *(f"dlq.{stage}.v1" for stage in ("enrich", "fold", "persist"))}
    told = {"gate.enrich.v1", "delivery.v1", *FLOW.completion_topics}
    assert lanes | told | {*FLOW.event_topics, *FLOW.ingest_topics} <= read
    assert not [topic for topic in read if topic.startswith(("master.", "hooks."))]


def test_each_job_reads_what_ignites_it_and_writes_what_it_emits_by_the_flow() -> None:
    for job in FLOW.jobs():
        read, written = names(FLOW, job.name, "READ"), names(FLOW, job.name, "WRITE")
        of_each = {JOB_STATUS_TOPIC, JOB_ORDER_TOPIC}
        assert read == {*job.ignited_by, *job.looks_up, *job.starts_from, *of_each}
        emitted = {*job.emits, *job.waits_in, *job.parks_in}
        by_relay = names(FLOW, "relay", "WRITE") if job.name == "persist" else set()
        assert emitted <= written | by_relay
        assert written <= emitted | {JOB_STATUS_TOPIC}
        assert Acl(job.name, "READ", "group", f"headrace-{job.name}") in acls(FLOW)


def test_every_topic_is_written_by_those_alone_whose_topic_it_is() -> None:
    emitters: dict[str, set[str]] = {}
    for job in FLOW.jobs():
        for topic in job.emits + job.parks_in:
            emitters.setdefault(topic, set()).add(job.name)
    writers = {
        topic.name: {a.application for a in acls(FLOW) if a[1:] == ("WRITE", "topic", topic.name)}
        for topic in FLOW.topics()
    }
    # what an operator redrives into fold, or orders for what waits, comes through the outbox
    for topic in (*FLOW.folded_topics, wake_topic("enrich")):
        writers[topic].remove("relay")
    # terminal and desk send a hook a test, and the relay what is redriven to one
    assert writers.pop(again_topic("forward")) == {"operator", "desk", "relay"}
    assert writers.pop(CREDENTIAL_TOPIC) == {"operator", "desk"}
    assert writers.pop(JOB_ORDER_TOPIC) == {"operator", "desk"}
    assert writers[HOOK_TOPIC] == {"operator", "desk", "forward"}
    writers[HOOK_TOPIC] = {"forward"}
    for topic in writers.keys() - emitters.keys() - {JOB_STATUS_TOPIC}:
        assert len(writers[topic]) == 1
    assert writers[master_topic("device")] == {"relay"}
    for topic, who in emitters.items():
        assert writers[topic] == ({"relay"} if who == {"persist"} else who)


def test_nobody_has_more_than_the_operations_that_are_needed() -> None:
    altering = {"CREATE", "ALTER_CONFIGS"}
    assert {a.application for a in acls(FLOW) if a.operation in altering} == {"topics"}
    looking = {a.application for a in acls(FLOW) if a.operation == "DESCRIBE_CONFIGS"}
    assert looking == {"topics", "gateway", "operator"}  # /health and doctor
    deleting = {a[0::3] for a in acls(FLOW) if a.operation == "DELETE"}
    assert deleting == {("retry", "retry.enrich.v1")}
    every = {topic.name for topic in FLOW.topics()}
    assert {acl.name for acl in acls(FLOW) if acl.kind == "topic"} == every
    assert len(set(acls(FLOW))) == len(acls(FLOW))


def test_a_new_endpoint_is_in_the_list_by_itself() -> None:
    added = {(a.application, a.operation, a.name) for a in set(acls(WIDER)) - set(acls(FLOW))}
    assert {
        ("gateway", "WRITE", "ingest.alarm.v1"),
        ("enrich", "READ", "ingest.alarm.v1"),
        ("enrich", "WRITE", "event.alarm.v1"),
        ("persist", "READ", "event.alarm.v1"),
        ("relay", "WRITE", "completion.alarm.v1"),
        ("topics", "CREATE", "completion.alarm.v1"),
    } <= added
    assert {name for _, _, name in added} == {
        "ingest.alarm.v1",
        "event.alarm.v1",
        "completion.alarm.v1",
    }
