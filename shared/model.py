"""The words a flow is declared in: endpoints, event types, entities, jobs and their topics."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

Fields = dict[str, Any]


class Rejected(Exception):  # noqa: N818 - it is what happened to the payload
    """This payload can never become an event; it goes to the dead letters with this reason."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class MissingMasterData(Exception):  # noqa: N818
    """This payload cannot become an event yet: it waits in the retry lane for this row."""

    def __init__(self, table: str, key: str) -> None:
        super().__init__(f"no {table} {key!r} in the master data")
        self.table = table
        self.key = key


class MasterData(Protocol):
    """Last known master data, by table and key."""

    def find(self, table: str, key: str) -> Fields | None: ...


class Arrival(NamedTuple):
    """What the log knows of a payload before anyone has read it."""

    entity_id: str
    arrived_ms: int


class Draft(NamedTuple):
    """What an endpoint's enrichment makes of a payload: an event without its envelope."""

    type: str
    time_ms: int
    data: Fields
    entity_id: str | None = None  # None: the id that the payload was posted under


class Event(NamedTuple):
    """What a fold sees of an event. `time_ms` is event time clipped to arrival + 5 min; `late` says
    that the entity has already folded an event of newer time."""

    id: str
    type: str
    entity_id: str
    time_ms: int
    arrived_ms: int
    late: bool
    data: Fields


class FreshField(NamedTuple):
    """A field that must not be older than its use: it is read from the store for every micro-batch,
    and the job pauses while the store is away. For rows that are keyed by the payload's entity."""

    table: str
    key: str  # the column that holds the entity's id
    name: str


@dataclass(frozen=True)
class Endpoint:
    """A route that devices POST to. It owns one ingest topic."""

    name: str
    enrich: Callable[[Fields, Arrival, MasterData], Draft]
    emits: tuple[str, ...]  # event types
    master: tuple[str, ...] = ()  # master-data tables that it looks things up in
    fresh: tuple[FreshField, ...] = ()

    @property
    def topic(self) -> str:
        return f"ingest.{self.name}.v1"


@dataclass(frozen=True)
class EventType:
    """A kind of event in its common format. It owns one event topic, kept for ever."""

    name: str

    @property
    def topic(self) -> str:
        return f"event.{self.name}.v1"

    @property
    def completion_topic(self) -> str:
        return f"completion.{self.name}.v1"


@dataclass(frozen=True)
class Entity:
    """A thing with state: the fold of its events."""

    name: str
    folds: tuple[str, ...]  # event types
    initial: Callable[[str], Fields]  # entity id -> state before the first event
    fold: Callable[[Fields, Event], Fields]  # pure: no clock, no I/O, no randomness

    @property
    def topic(self) -> str:
        return f"state.{self.name}.v1"


class Topic(NamedTuple):
    name: str
    config: Mapping[str, str]
    why: str


class Job(NamedTuple):
    """Which topics ignite a job and what it emits when it is done."""

    name: str
    ignited_by: tuple[str, ...]
    emits: tuple[str, ...]
    does: str
    looks_up: tuple[str, ...] = ()


# An event can be four times its payload: JSON may say in five bytes a number that is written out in
# eighteen. A record that its topic refused would stop the job that writes it.
RECORD_BYTES_MAX = 8 * 1024 * 1024
_NAME = re.compile("[a-z0-9_]+")
_FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1"}
_LOG_TIME = {
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": str(RECORD_BYTES_MAX),
}
# keeps nulls long enough for a reader that was away for a day
_COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": "86400000", **_LOG_TIME}
_DAYS_MS = 86_400_000


@dataclass(frozen=True)
class Flow:
    """The whole table: which event ignites what next. Everything else is derived from it."""

    endpoints: tuple[Endpoint, ...]
    event_types: tuple[EventType, ...]
    entities: tuple[Entity, ...]
    ingest_retention_days: int = 30
    _endpoint_by_name: dict[str, Endpoint] = field(init=False, repr=False, compare=False)
    _entity_by_name: dict[str, Entity] = field(init=False, repr=False, compare=False)
    _type_by_name: dict[str, EventType] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for kind, rows in (
            ("endpoint", self.endpoints),
            ("event type", self.event_types),
            ("entity", self.entities),
        ):
            _refuse_bad_names(kind, [row.name for row in rows])
        _refuse_bad_names("master-data table", list(self.master_tables))
        if not self.endpoints:
            raise ValueError("the flow has no endpoint: nothing could ever come in")
        object.__setattr__(self, "_endpoint_by_name", {row.name: row for row in self.endpoints})
        object.__setattr__(self, "_entity_by_name", {row.name: row for row in self.entities})
        object.__setattr__(self, "_type_by_name", {row.name: row for row in self.event_types})
        for endpoint in self.endpoints:
            if not endpoint.emits:
                raise ValueError(
                    f"endpoint {endpoint.name} emits no event type: it ends in silence"
                )
        for owner, types in [(f"endpoint {e.name}", e.emits) for e in self.endpoints] + [
            (f"entity {e.name}", e.folds) for e in self.entities
        ]:
            for name in types:
                if name not in self._type_by_name:
                    raise ValueError(f"{owner} names event type {name!r}, which no row declares")

    def endpoint(self, name: str) -> Endpoint | None:
        return self._endpoint_by_name.get(name)

    def entity(self, name: str) -> Entity | None:
        return self._entity_by_name.get(name)

    def event_type(self, name: str) -> EventType:
        return self._type_by_name[name]

    @property
    def master_tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(table for e in self.endpoints for table in e.master))

    @property
    def folded_topics(self) -> tuple[str, ...]:
        names = dict.fromkeys(name for entity in self.entities for name in entity.folds)
        return tuple(self.event_type(name).topic for name in names)

    def jobs(self) -> tuple[Job, ...]:
        ingest = tuple(e.topic for e in self.endpoints)
        events = tuple(t.topic for t in self.event_types)
        states = tuple(e.topic for e in self.entities)
        masters = tuple(master_topic(table) for table in self.master_tables)
        completions = tuple(t.completion_topic for t in self.event_types)
        return (
            Job(
                "enrich",
                ingest,
                (*events, retry_topic("enrich"), dead_letter_topic("enrich")),
                "looks master data up, writes the common format",
                looks_up=masters,
            ),
            Job(
                "fold",
                self.folded_topics,
                (*states, dead_letter_topic("fold")),
                "folds events into entity state",
            ),
            Job(
                "persist",
                events + states,
                (*completions, dead_letter_topic("persist")),
                "writes rows and their completions in one transaction; relay publishes them",
            ),
        )

    def picture(self) -> str:
        """The flow as text: what ignites each job, and what it emits when it is done."""
        lines = ["POST /v1/<endpoint>/<id>"]
        lines += [f"  gateway ─▶ {endpoint.topic}" for endpoint in self.endpoints]
        for job in self.jobs():
            lines += ["", f"{job.name}: {job.does}"]
            lines += [f"  ignited by  {topic}" for topic in job.ignited_by]
            lines += [f"  looks up    {topic}" for topic in job.looks_up]
            lines += [f"  emits       {topic}" for topic in job.emits]
        lines += ["", f"each job tells how it is on {JOB_STATUS_TOPIC}; GET /health shows it"]
        return "\n".join(lines)

    def topics(self) -> tuple[Topic, ...]:
        ingest_config = {
            **_LOG_TIME,
            "retention.ms": str(self.ingest_retention_days * _DAYS_MS),
            "retention.bytes": "-1",
        }
        lane_stages = [job.name for job in self.jobs()]
        return (
            *(Topic(e.topic, ingest_config, "payloads as they came") for e in self.endpoints),
            *(
                Topic(t.topic, {**_LOG_TIME, **_FOR_EVER}, "events, kept for ever")
                for t in self.event_types
            ),
            *(Topic(e.topic, _COMPACTED, "the latest snapshot of each") for e in self.entities),
            *(
                Topic(t.completion_topic, {**_LOG_TIME, **_FOR_EVER}, "events that are durable")
                for t in self.event_types
            ),
            *(Topic(master_topic(t), _COMPACTED, "master data") for t in self.master_tables),
            Topic(retry_topic("enrich"), {**_LOG_TIME, **_FOR_EVER}, "work that waits"),
            *(
                Topic(dead_letter_topic(s), {**_LOG_TIME, **_FOR_EVER}, "work that was parked")
                for s in lane_stages
            ),
            Topic(JOB_STATUS_TOPIC, _COMPACTED, "what each job says of itself"),
        )


JOB_STATUS_TOPIC = "job.status.v1"
# on each master topic: "what was committed until then is here". No row has this key: ids start with
# a letter or a digit
RELAY_HEARTBEAT_KEY = "_relay"


def master_topic(table: str) -> str:
    return f"master.{table}.v1"


def retry_topic(stage: str) -> str:
    return f"retry.{stage}.v1"


def dead_letter_topic(stage: str) -> str:
    return f"dlq.{stage}.v1"


def _refuse_bad_names(kind: str, names: list[str]) -> None:
    for name in names:
        # a dot and an underscore collide in Kafka's metric names: topic parts hold neither dots
        # nor capitals
        if not _NAME.fullmatch(name):
            raise ValueError(f"{kind} {name!r}: use lower-case letters, digits and _")
        if names.count(name) > 1:
            raise ValueError(f"{kind} {name!r} is declared twice")
