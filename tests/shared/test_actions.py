"""Rows of actions: what is refused, and what follows from them in the flow, its rights and its
contracts."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from local_stack.contracts.asyncapi import document, operations
from local_stack.contracts.documents import value_schemas
from local_stack.verbs.flow import document as flow_document
from local_stack.verbs.flow import picture
from shared.actions import Action, TimedOut
from shared.contract import contract_of, payload_contract
from shared.events import envelope
from shared.events.envelope import EventRecord, Position
from shared.flow_table import Flow
from shared.folding.applier import Applied, Applier
from shared.folding.refolding import RefoldAnswer, taken
from shared.folding.snapshot import Snapshot
from shared.model import Arrival, Draft, Endpoint, Entity, Event, EventType, Fields, MasterData
from shared.published.acls import acls
from shared.published.schemas.payloads import payload
from stream_jobs.fold.emission_rows import EmissionRows


def _asks(payload: Fields, arrival: Arrival, _master: MasterData) -> Draft:
    return Draft("asked", arrival.at_ms, payload)


def _fold(state: Fields, event: Event) -> Fields:
    return {**state, "waits": event.type == "asked"}


ASK = Action(
    "call",
    ignited_by="asked",
    group="callers",
    answered_at="answer",
    within_s=60,
    entity="line",
    waits=lambda state, _asked: bool(state["waits"]),
)
FLOW = Flow(
    endpoints=(
        Endpoint("ask", _asks, ("asked",)),
        Endpoint("answer", _asks, ("answered",)),
    ),
    event_types=(
        EventType("asked", stream="lines"),
        EventType("answered", stream="lines"),
        EventType("call_timed_out", data=TimedOut, stream="lines"),
    ),
    entities=(
        Entity("line", ("asked", "answered", "call_timed_out"), lambda _: {"waits": False}, _fold),
    ),
    actions=(ASK,),
)
TYPES = {row.name: row for row in FLOW.event_types}
APPLIER = Applier(FLOW.entities[0], 64, TYPES, FLOW.actions_of("line"))


def _asked(offset: int = 0, entity: str = "l-1", **data: Any) -> EventRecord:
    place, origin = Position("event.lines.v1", 0, offset), Position("ingest.ask.v1", 0, offset)
    return EventRecord(place, entity, f"e-{offset}", "asked", 5, 6, origin, 0, data)


def _applied(*records: EventRecord, before: Snapshot | None = None) -> Applied:
    return APPLIER.apply(records[0].entity_id, before, records)


def test_the_flow_has_an_endpoint_of_its_own_that_nobody_can_post_to() -> None:
    assert [row.name for row in FLOW.endpoints] == ["ask", "answer", "call_deadline"]
    assert [row.name for row in FLOW.open_endpoints] == ["ask", "answer"]
    assert FLOW.endpoint("call_deadline") is None
    topic = "ingest.call_deadline.v1"
    jobs = {job.name: job for job in FLOW.jobs()}
    assert topic in jobs["enrich"].ignited_by and topic in jobs["fold"].emits
    rights = {(acl.application, acl.operation) for acl in acls(FLOW) if acl.name == topic}
    assert ("fold", "WRITE") in rights and ("gateway", "WRITE") not in rights
    assert replace(FLOW, ingest_retention_days=3).endpoints[:2] == FLOW.open_endpoints


def test_who_carries_it_out_may_read_what_ignites_it() -> None:
    rights = {(acl.operation, acl.name) for acl in acls(FLOW) if acl.application == "callers"}
    assert rights == {("READ", "event.lines.v1"), ("READ", "callers")}
    later = replace(FLOW, actions=(replace(ASK, after="completion"),))
    assert later.topic_igniting(later.actions[0]) == "completion.asked.v1"


def test_it_is_in_the_picture_and_in_the_contracts() -> None:
    drawn = picture(FLOW)
    assert "call: somebody else's code, in the consumer group callers" in drawn
    assert "within      60 s, or else call_timed_out" in drawn
    assert "gateway ─▶ ingest.call_deadline.v1" not in drawn
    assert flow_document(FLOW)["actions"][0]["topic"] == "event.lines.v1"
    its = [(of.action, of.topic) for of in operations(FLOW) if of.who == "call"]
    assert its == [("receive", "event.lines.v1"), ("send", "ingest.answer.v1")]
    assert document(FLOW, "1", {*value_schemas(FLOW)})["operations"]["call.send.ingest.answer.v1"]


def test_a_deadline_is_a_payload_that_keeps_its_contract() -> None:
    applied = _applied(_asked(entity="acme/l-1", number=7))
    (record,) = applied.emitted
    (row,) = EmissionRows(FLOW).of(record)
    assert row.topic == "ingest.call_deadline.v1"
    assert row.key == record.entity_id.encode() == f"acme/{record.id}".encode()
    value = orjson.loads(row.value or b"")
    endpoint = FLOW.endpoints[-1]
    contract = payload_contract(endpoint)
    assert contract is not None and contract.breach(value) is None
    assert (value["id"], value["version"], value["asked"]["data"]) == ("acme/l-1", 1, {"number": 7})
    headers = payload(endpoint).headers
    assert {*headers["required"]} <= {name for name, _ in row.headers} <= {*headers["properties"]}
    for name, said in row.headers:
        if "const" in headers["properties"][name]:
            assert said.decode() == headers["properties"][name]["const"]
    assert dict(row.headers)[envelope.TENANT] == b"acme"


def test_the_same_question_has_the_same_deadline_and_another_has_another() -> None:
    first, again, other = (_applied(_asked(n)).emitted[0] for n in (0, 0, 1))
    assert (first.id, first.entity_id) == (again.id, again.entity_id)
    assert first.id != other.id
    assert _applied(_asked()).snapshot.emissions == [first]  # type: ignore[union-attr]


def test_the_version_is_that_of_the_state_that_knows_of_the_question() -> None:
    applied = _applied(_asked(0), _asked(1)._replace(type="answered"), _asked(2))
    assert [record.data["version"] for record in applied.emitted] == [1, 3]
    assert applied.snapshot is not None and applied.snapshot.version == 3


def test_a_refold_counts_versions_for_itself_and_the_deadline_counts_by_the_state() -> None:
    (record,) = _applied(_asked(9)).emitted
    now = Snapshot({"waits": False}, version=40, asked={"e-9": 0})
    answer = RefoldAnswer("line", "l-1", Snapshot({"waits": True}), [], [record])
    applied = taken(APPLIER, now, [], answer)
    assert applied is not None and applied.snapshot is not None
    assert applied.emitted[0].data["version"] == applied.snapshot.version == 41


def test_a_question_that_no_snapshot_could_hold_is_parked() -> None:
    (parked,) = _applied(_asked(big="x" * 300_000)).parked
    assert "asked ignites call, which has a time limit" in parked.detail


def test_what_times_out_says_keeps_its_contract() -> None:
    assert contract_of(TimedOut).breach({"asked": "e-1", "within_s": 60}) is None


NO_LIMIT: dict[str, Any] = {"within_s": None, "entity": None, "waits": None}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"name": "Call me"}, "use lower-case letters"),
        ({"ignited_by": "rung"}, "ignited by event type 'rung', which no row declares"),
        ({"after": "dinner"}, "after is 'dinner'"),
        ({"group": "headrace-fold"}, "do not begin with 'headrace-'"),
        ({"group": "no group"}, "use 1 to 200 letters"),
        ({"answered_at": "reply"}, "'reply', which is no endpoint of this flow; there are: ask"),
        ({"answered_at": "call_deadline"}, "which is no endpoint"),
        ({"within_s": 0}, "within_s is 0"),
        ({"within_s": 1e9}, "at most a year"),
        ({"waits": None}, "name the entity that waits, and in `waits`"),
        ({"entity": "phone"}, "name the entity that waits"),
        ({"within_s": None}, "give within_s, too"),
    ],
)
def test_a_row_that_does_not_add_up_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        replace(FLOW, actions=(replace(ASK, **changes),))


def test_an_action_without_a_limit_needs_nothing_more() -> None:
    flow = replace(FLOW, actions=(replace(ASK, **NO_LIMIT),))
    assert [row.name for row in flow.endpoints] == ["ask", "answer"]
    assert flow.actions_of("line") == () and not flow.waits


def _entity(*folds: str) -> tuple[Entity, ...]:
    return (replace(FLOW.entities[0], folds=folds),)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"entities": _entity("answered", "call_timed_out")}, "neither folds nor emits asked"),
        ({"entities": _entity("asked", "answered")}, "line does not fold call_timed_out"),
        (
            {"event_types": FLOW.event_types[:2], "entities": _entity("asked", "answered")},
            r"declare its event, EventType\('call_timed_out', data=TimedOut\)",
        ),
        (
            {"event_types": (*FLOW.event_types[:2], EventType("call_timed_out"))},
            "answered and call_timed_out may race, .* give both one `stream`",
        ),
        ({"actions": [ASK]}, "actions is no tuple"),
        ({"actions": (ASK, ASK)}, "declared twice"),
    ],
)
def test_a_flow_in_which_the_action_could_not_end_is_refused(
    changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        replace(FLOW, **changes)
