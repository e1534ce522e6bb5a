from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import orjson
import pytest

from local_stack.verbs.flow import picture
from shared.flow import FLOW, load_flow
from shared.flow_table import Flow
from shared.model import Endpoint, Entity, EventType, Example
from shared.published.acls import acls
from shared.settings import GatewaySettings

PINGS = Endpoint(
    "pings", enrich=FLOW.endpoints[0].enrich, emits=("ping",), payload=FLOW.endpoints[0].payload
)


DEVICE_OF_PINGS = replace(FLOW.entities[0], folds=("ping",), derive=None, emits=(), deleted_by=())
CHAIN = tuple(
    Entity(name, (folds,), lambda _: {}, lambda s, _e: s, derive=lambda *_: (), emits=(emits,))
    for name, folds, emits in (("one", "ping", "pong"), ("two", "pong", "ping"))
)


def _flow(**changes: object) -> Flow:
    rows = {
        "endpoints": (Endpoint("pings", enrich=FLOW.endpoints[0].enrich, emits=("ping",)),),
        "event_types": (EventType("ping"),),
        "entities": (),
    }
    return Flow(**{**rows, **changes})  # type: ignore[arg-type]


def test_no_job_ends_in_silence() -> None:
    for job in FLOW.jobs():
        assert job.emits, f"{job.name} emits nothing when it is done"
        assert any(not topic.startswith("dlq.") for topic in job.emits)


def test_every_topic_that_a_job_names_is_made() -> None:
    made = {topic.name for topic in FLOW.topics()}
    for job in FLOW.jobs():
        assert made.issuperset((*job.ignited_by, *job.looks_up, *job.emits)), job.name


def test_every_topic_but_lanes_and_ends_ignites_or_informs_someone() -> None:
    jobs = FLOW.jobs()
    read = {topic for j in jobs for topic in (*j.ignited_by, *j.looks_up, *j.starts_from)}
    ends = ("completion.", "retry.", "dlq.", "repeat.", "job.", "credential.", "delivery.")
    for topic in FLOW.topics():
        assert topic.name in read or topic.name.startswith(ends), topic.name


def test_events_are_kept_for_ever_and_states_compacted() -> None:
    config = {topic.name: topic.config for topic in FLOW.topics()}
    assert config["event.reading.v1"]["retention.ms"] == "-1"
    assert config["event.reading.v1"]["retention.bytes"] == "-1"
    assert config["state.device.v1"]["cleanup.policy"] == "compact"
    assert config["ingest.telemetry.v1"]["message.timestamp.type"] == "LogAppendTime"


def test_an_event_fits_into_its_topic_whatever_its_payload_grows_to() -> None:
    body_bytes_max = GatewaySettings.model_fields["body_bytes_max"].default
    payload = b"[" + b",".join([b"1e15"] * 1000) + b"]"
    growth = len(orjson.dumps(orjson.loads(payload))) / len(payload)
    assert growth > 3
    for topic in FLOW.topics():
        assert int(topic.config["max.message.bytes"]) > growth * body_bytes_max, topic.name


def test_what_the_schema_publishes_has_its_topics_whatever_a_flow_looks_up() -> None:
    made = {topic.name for topic in _flow().topics()}
    assert {"master.device.v1", "master.device_model.v1"} <= made
    assert all(not job.looks_up or job.name == "forward" for job in _flow().jobs())


def test_states_are_completed_where_a_row_asks_for_it() -> None:
    entities = (replace(FLOW.entities[0], completions=True),)
    aggregates = (replace(FLOW.aggregates[0], completions=True),)
    flow = replace(FLOW, entities=entities, aggregates=aggregates)
    further = {topic.name for topic in flow.topics()} - {topic.name for topic in FLOW.topics()}
    assert further == {"completion.state.device.v1", "completion.state.area.v1"}
    (persist,) = (job for job in flow.jobs() if job.name == "persist")
    assert further <= {*persist.emits}
    writers = {acl.name for acl in acls(flow) if acl[:3] == ("relay", "WRITE", "topic")}
    assert further <= writers


def test_the_picture_names_every_topic() -> None:
    drawn = picture(FLOW)
    for topic in FLOW.topics():
        assert topic.name in drawn


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"endpoints": ()}, "no endpoint"),
        (
            {"endpoints": (Endpoint("pings", enrich=FLOW.endpoints[0].enrich, emits=()),)},
            "ends in silence",
        ),
        ({"event_types": (EventType("ping"), EventType("é"))}, "lower-case"),
        ({"event_types": ()}, "names event type 'ping', which no row declares"),
        ({"event_types": (EventType("ping"), EventType("ping"))}, "declared twice"),
        ({"event_types": (EventType("ping"), EventType("Ping.Pong"))}, "lower-case"),
        ({"event_types": EventType("ping")}, "event_types is no tuple: .* comma"),
        (
            {"endpoints": (Endpoint("pings", enrich=FLOW.endpoints[0].enrich, emits="ping"),)},  # type: ignore[arg-type]
            "pings: emits is no tuple",
        ),
        (
            {"entities": (Entity("thing", "ping", dict, lambda s, _e: s),)},  # type: ignore[arg-type]
            "thing: folds is no tuple",
        ),
        (
            {"endpoints": (replace(PINGS, example=Example("ping-1", {"at": 1})),)},
            "the example of endpoint pings breaks its contract: at: Input should be a valid string",
        ),
        (
            {"endpoints": (replace(PINGS, example=Example("no id", {})),)},
            "the example of endpoint pings: an entity id has",
        ),
        (
            {"entities": (Entity("thing", ("ping",), dict, lambda s, _e: s),)},
            "entity thing: its initial state cannot be made: ValueError: ",
        ),
        (
            {"entities": (Entity("thing", ("ping",), str, lambda s, _e: s),)},  # type: ignore[arg-type]
            "entity thing: its initial state is str, it must be a dict",
        ),
        (
            {"entities": (replace(DEVICE_OF_PINGS, initial=lambda _: {}),)},
            "entity device: its initial state breaks its contract: device: Field required",
        ),
        (
            {"event_types": (EventType("ping", data=object()),)},
            "event type ping has a contract that cannot be used: .+",
        ),
        (
            {"entities": (Entity("thing", ("pong",), dict, lambda s, _e: s),)},
            "names event type 'pong', which no row declares",
        ),
        (
            {"entities": (replace(DEVICE_OF_PINGS, deleted_by=("ping",)),)},
            "entity device is deleted by 'ping', and folds it, too",
        ),
        (
            {"entities": (replace(DEVICE_OF_PINGS, emits=("ping",)),)},
            "entity device: derive and emits go together",
        ),
        (
            {"entities": (replace(CHAIN[0], emits=("ping",)),)},
            "entity one would be changed by what it emits itself",
        ),
        (
            {"entities": CHAIN, "event_types": (EventType("ping"), EventType("pong"))},
            "entity one would be changed by what it emits itself",
        ),
        (
            {"entities": (replace(CHAIN[0], emits=("ping",), emits_on={"ping": ("ping",)}),)},
            "entity one would be changed by what it emits itself: ping leads",
        ),
        (
            {
                "entities": (replace(CHAIN[0], emits_on={"pong": ()}),),
                "event_types": (EventType("ping"), EventType("pong")),
            },
            r"entity one: emits_on\['pong'\]: an event type that it reads, and a tuple",
        ),
        (
            {
                "entities": (replace(CHAIN[0], emits_on={"ping": ("ping",)}),),
                "event_types": (EventType("ping"), EventType("pong")),
            },
            r"entity one: emits_on\['ping'\]: ",
        ),
        (
            {"event_types": (EventType("ping", upcasters=dict),)},  # type: ignore[arg-type]
            "ping: upcasters is no tuple",
        ),
    ],
)
def test_a_table_that_does_not_add_up_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        _flow(**changes)


def test_entities_may_talk_to_each_other_where_that_comes_to_an_end() -> None:
    one = replace(CHAIN[0], folds=("ping", "done"), emits_on={"done": ()})
    two = replace(CHAIN[1], emits=("done",))
    types = tuple(EventType(name) for name in ("ping", "pong", "done"))
    _flow(entities=(one, two), event_types=types)
    with pytest.raises(ValueError, match=r"changed by what it emits itself: .* leads to another"):
        _flow(entities=(replace(one, emits_on={}), two), event_types=types)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def x(:", "line 1: SyntaxError: invalid syntax$"),
        (
            "import os\nimport not_there",
            "line 2: ModuleNotFoundError: No module named 'not_there'$",
        ),
        ("\n\nraise KeyError('a\\nb')", "line 3: KeyError: "),
        ("FLOW = 1", "is no Flow; end the module with FLOW = Flow"),
        ("from shared.flow import FLOW as MINE", "is no Flow; there is {name}:MINE$"),
        (
            "from shared.flow_table import Flow\nFLOW = Flow((), (), ())",
            "line 2: ValueError: the flow has no endpoint",
        ),
    ],
)
def test_a_module_that_brings_no_flow_says_where_and_why(
    source: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"flow_{sha256(source.encode()).hexdigest()[:8]}"  # a module is imported once
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=says.format(name=name)) as error:
        load_flow(f"{name}:FLOW")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("reference", ["", ":", "nowhere", "nowhere.at_all:FLOW", "a/b:FLOW"])
def test_a_module_that_is_not_there_is_told_with_what_to_do(reference: str) -> None:
    with pytest.raises(ValueError, match=r"there is no module .+; write module:attribute"):
        load_flow(reference)


@pytest.mark.parametrize("reference", ["bees.py:FLOW", "folder/bees.py", "bees.py"])
def test_a_file_in_the_place_of_a_module_is_told_with_the_module(reference: str) -> None:
    with pytest.raises(ValueError, match=r"name the module, not the file: bees:FLOW"):
        load_flow(reference)


def test_two_entities_of_one_event_type_read_its_topic_once() -> None:
    twin = Entity("twin", ("reading",), lambda _: {}, lambda state, _event: state)
    flow = Flow(FLOW.endpoints, FLOW.event_types, (*FLOW.entities, twin))
    assert flow.folded_topics == (
        *("event.reading.v1", "event.status_changed.v1", "event.retired.v1"),
    )


def test_what_comes_at_most_once_is_marked_and_all_else_is_not() -> None:
    first, *others = FLOW.event_types
    flow = replace(FLOW, event_types=(replace(first, completed_at_most_once=True), *others))
    assert FLOW.at_most_once_topics == frozenset()
    assert flow.at_most_once_topics == {first.completion_topic}
    assert f"{first.completion_topic} (at most once)\n" in picture(flow)
    assert picture(flow).count("(at most once)") == 1
