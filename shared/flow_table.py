"""The flow's table, and what is derived from it: topics and jobs. In one file because all of it is
read from the same rows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from shared.actions import Action, deadline_endpoint
from shared.flow_rules import refuse_what_does_not_add_up, refuse_what_is_no_tuple
from shared.lookups import HttpLookup
from shared.model import (
    TABLES_OF_THE_SCHEMA,
    Aggregate,
    AllEvents,
    Endpoint,
    Entity,
    EventType,
    ParquetFiles,
    SearchIndex,
    Table,
    View,
)
from shared.topic_names import (
    CREDENTIAL_TOPIC,
    DELIVERY_TOPIC,
    HOOK_TOPIC,
    JOB_ORDER_TOPIC,
    JOB_STATUS_TOPIC,
    RECORD_BYTES_MAX,
    REFOLD_TOPIC,
    REFOLDED_TOPIC,
    REPEAT_TOPIC,
    again_topic,
    breach_topic,
    dead_letter_topic,
    dropped_topic,
    gate_topic,
    master_topic,
    retry_topic,
    wake_topic,
)

_LOG_TIME = {
    "message.timestamp.type": "LogAppendTime",
    "max.message.bytes": str(RECORD_BYTES_MAX),
}
# keeps nulls long enough for a reader that was away for a day
_COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": "86400000", **_LOG_TIME}
_DAYS_MS = 86_400_000


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
    asks: tuple[str, ...] = ()  # services, by their URLs
    waits_in: tuple[str, ...] = ()  # lanes of what cannot be done yet
    parks_in: tuple[str, ...] = ()  # lanes of what never can
    starts_from: tuple[str, ...] = ()  # where its checkpoint is lost or no longer fits


@dataclass(frozen=True)
class Flow:
    """The whole table: which event ignites what next. Everything else is derived from it."""

    endpoints: tuple[Endpoint, ...]
    event_types: tuple[EventType, ...]
    entities: tuple[Entity, ...]
    aggregates: tuple[Aggregate, ...] = ()
    actions: tuple[Action, ...] = ()
    all_events: tuple[AllEvents, ...] = ()
    tables: tuple[Table, ...] = ()
    parquet_files: tuple[ParquetFiles, ...] = ()
    search_indexes: tuple[SearchIndex, ...] = ()
    views: tuple[View, ...] = ()
    ingest_retention_days: int = 30
    _endpoint_by_name: dict[str, Endpoint] = field(init=False, repr=False, compare=False)
    _type_by_name: dict[str, EventType] = field(init=False, repr=False, compare=False)
    _with_state_by_name: dict[str, Entity | Aggregate] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        rows = "endpoints", "event_types", "entities", "aggregates", "tables", "actions"
        further = "all_events", "parquet_files", "search_indexes", "views"
        refuse_what_is_no_tuple(self, *rows, *further)
        deadlines = (deadline_endpoint(row) for row in self.actions if row.within_s and row.entity)
        object.__setattr__(self, "endpoints", (*self.open_endpoints, *deadlines))
        object.__setattr__(self, "_endpoint_by_name", {e.name: e for e in self.open_endpoints})
        object.__setattr__(self, "_type_by_name", {row.name: row for row in self.event_types})
        object.__setattr__(self, "_with_state_by_name", {row.name: row for row in self.with_state})
        refuse_what_does_not_add_up(self)

    @property
    def with_state(self) -> tuple[Entity | Aggregate, ...]:
        """Whatever has snapshots on a state topic."""
        return (*self.entities, *self.aggregates)

    @property
    def state_by_topic(self) -> dict[str, str]:
        """Which entity's or aggregate's snapshots are there."""
        return {row.topic: row.name for row in self.with_state}

    @property
    def open_endpoints(self) -> tuple[Endpoint, ...]:
        """Those that devices post to."""
        return tuple(row for row in self.endpoints if row.is_open)

    @property
    def posted_topics(self) -> tuple[str, ...]:
        return _once(row.topic for row in self.open_endpoints)

    @cached_property
    def readers(self) -> dict[str, tuple[Entity, ...]]:
        """Event type -> the entities whose states such events are in."""
        return {
            event.name: tuple(row for row in self.entities if event.name in row.reads)
            for event in self.event_types
        }

    def actions_of(self, entity: str) -> tuple[Action, ...]:
        """For whose results it waits, and not for ever."""
        return tuple(row for row in self.actions if row.within_s and row.entity == entity)

    def topic_igniting(self, action: Action) -> str:
        return action.topic(self.event_type(action.ignited_by))

    @cached_property
    def ingest_topics(self) -> tuple[str, ...]:
        return _once(row.topic for row in self.endpoints)

    @cached_property
    def _endpoints_by_topic(self) -> dict[str, list[Endpoint]]:
        topics = self.ingest_topics
        return {topic: [row for row in self.endpoints if row.topic == topic] for topic in topics}

    @cached_property
    def event_topics(self) -> tuple[str, ...]:
        return _once(row.topic for row in self.event_types)

    @property
    def drops(self) -> bool:
        return any(row.drops for row in self.endpoints)

    @property
    def lets_breaches_pass(self) -> bool:
        return any(row.contract_mode != "enforce" for row in self.endpoints)

    def endpoint_of(self, topic: str, kind: str | None) -> Endpoint | None:
        """Whose payload it is: `kind` is its header `ce_type`, which counts where endpoints share
        the topic. None where it is nobody's."""
        rows = self._endpoints_by_topic.get(topic, ())
        if len(rows) == 1 and rows[0].stream is None:
            return rows[0]
        return next((row for row in rows if kind == row.payload_type), None)

    def endpoint(self, name: str) -> Endpoint | None:
        """That devices post to."""
        return self._endpoint_by_name.get(name)

    def event_type(self, name: str) -> EventType:
        return self._type_by_name[name]

    def find_with_state(self, name: str) -> Entity | Aggregate | None:
        return self._with_state_by_name.get(name)

    @property
    def master_tables(self) -> tuple[str, ...]:
        return _once(table for endpoint in self.endpoints for table in endpoint.master)

    @property
    def looked_at(self) -> dict[str, str]:
        """Entities and aggregates whose state an enrichment looks at -> their topics."""
        names = _once(name for endpoint in self.endpoints for name in endpoint.states)
        return {name: self._with_state_by_name[name].topic for name in names}

    @property
    def lookups(self) -> tuple[HttpLookup, ...]:
        """Services that an enrichment asks."""
        return tuple({row.name: row for e in self.endpoints for row in e.lookups}.values())

    @property
    def asks_registry(self) -> bool:
        return any(row.asks_registry for row in self.endpoints)

    @property
    def waits(self) -> bool:
        """Payloads may have to wait: for master data, or as their enrichment says."""
        return bool(self.master_tables) or any(row.retry for row in self.endpoints)

    @property
    def published_tables(self) -> tuple[Table, ...]:
        return (*map(Table, TABLES_OF_THE_SCHEMA), *self.tables)

    @property
    def timed_tables(self) -> frozenset[str]:
        """Whose rows count from a time on."""
        return frozenset(table.name for table in self.tables if table.valid_from)

    @property
    def sourced_tables(self) -> tuple[Table, ...]:
        """Whose rows are read from stores of the user's."""
        return tuple(table for table in self.tables if table.source)

    @property
    def folded_topics(self) -> tuple[str, ...]:
        names = _once(name for entity in self.entities for name in entity.reads)
        return _once(self.event_type(name).topic for name in names)

    @property
    def fold_reads(self) -> tuple[str, ...]:
        return (*self.folded_topics, REFOLDED_TOPIC)

    def types_in(self, row: AllEvents) -> tuple[EventType, ...]:
        if row.of is None:
            return self.event_types
        of = next(entity for entity in self.entities if entity.name == row.of)
        return tuple(kind for kind in self.event_types if kind.name in (*of.reads, *of.emits))

    @cached_property
    def topics_by_type(self) -> Mapping[str, tuple[str, ...]]:
        """Where events of a type are written: first the type's own topic."""
        found = {row.name: [row.topic] for row in self.event_types}
        for row in self.all_events:
            for event_type in self.types_in(row):
                found[event_type.name].append(row.topic)
        return {name: tuple(topics) for name, topics in found.items()}

    def _event_topics(self, names: Iterable[str]) -> tuple[str, ...]:
        made = set(names)
        own = [row for row in self.event_types if row.name in made]
        further = (self.topics_by_type[row.name][1:] for row in own)
        return _once((*(row.topic for row in own), *chain.from_iterable(further)))

    def view(self, name: str, version: int | None = None) -> View | None:
        """That version, or the one that is shown: the lowest. A higher one is made beside it."""
        known = [row for row in self.views if row.name == name and version in (None, row.version)]
        return min(known, key=lambda row: row.version, default=None)

    def topics_of(self, row: ParquetFiles | View) -> tuple[str, ...]:
        return _once(self.event_type(name).topic for name in row.of)

    @property
    def member_topics(self) -> tuple[str, ...]:
        names = _once(aggregate.members for aggregate in self.aggregates)
        return tuple(self._with_state_by_name[name].topic for name in names)

    @property
    def lanes(self) -> tuple[str, ...]:
        return _once(chain.from_iterable((*job.waits_in, *job.parks_in) for job in self.jobs()))

    def job(self, name: str) -> Job:
        return next(job for job in self.jobs() if job.name == name)

    def jobs(self) -> tuple[Job, ...]:
        masters = tuple(master_topic(table) for table in self.master_tables)
        known = *masters, *self.looked_at.values()
        registry = ["{schema registry}/schemas/ids/{key}"] if self.asks_registry else []
        asked = (*(lookup.url for lookup in self.lookups), *registry)
        whose_payloads_wait = gate_topic("enrich"), retry_topic("enrich")
        enrich = Job(
            "enrich",
            ignited_by=(*self.ingest_topics, again_topic("enrich")),
            looks_up=(*known, *(whose_payloads_wait if self.waits else ())),
            asks=asked,
            emits=(
                *self._event_topics(name for row in self.endpoints for name in row.emits),
                *([dropped_topic("enrich")] if self.drops else []),
                *([breach_topic("enrich")] if self.lets_breaches_pass else []),
            ),
            waits_in=(retry_topic("enrich"),),
            parks_in=(dead_letter_topic("enrich"),),
            does="checks payloads, looks master data up, writes the common format",
        )
        retry = Job(
            "retry",
            ignited_by=(*enrich.waits_in, wake_topic("enrich")),
            looks_up=known,
            asks=asked,
            emits=(*enrich.emits, gate_topic("enrich"), wake_topic("enrich")),
            parks_in=enrich.parks_in,
            starts_from=(gate_topic("enrich"),),
            does="does what has waited, each entity in its order",
        )
        fold = Job(
            "fold",
            ignited_by=self.fold_reads,
            emits=(
                *(e.topic for e in self.entities),
                *self._event_topics(name for row in self.entities for name in row.emits),
                *(row.topic for row in self.endpoints if not row.is_open),
                REPEAT_TOPIC,
                REFOLD_TOPIC,
                REFOLDED_TOPIC,
            ),
            parks_in=(dead_letter_topic("fold"),),
            starts_from=(*(e.topic for e in self.entities), REFOLD_TOPIC),
            does="folds events into entity state",
        )
        aggregate = Job(
            "aggregate",
            ignited_by=self.member_topics,
            emits=tuple(a.topic for a in self.aggregates),
            parks_in=(dead_letter_topic("aggregate"),),
            starts_from=tuple(a.topic for a in self.aggregates),
            does="adds up what entities share, each with its latest share",
        )
        persist = Job(
            "persist",
            ignited_by=(
                *self.event_topics,
                *(row.topic for row in self.with_state),
                *(row.topic for row in self.views if row.row is not None),
            ),
            emits=self.completion_topics,
            parks_in=(dead_letter_topic("persist"),),
            does="writes rows and their completions in one transaction; relay publishes them",
        )
        forward = Job(
            "forward",
            ignited_by=(
                *self.event_topics,
                *self.completion_topics,
                *self.state_by_topic,
                again_topic("forward"),
                wake_topic("forward"),
            ),
            looks_up=(HOOK_TOPIC,),
            emits=(DELIVERY_TOPIC, HOOK_TOPIC, gate_topic("forward"), wake_topic("forward")),
            parks_in=(dead_letter_topic("forward"),),
            starts_from=(gate_topic("forward"),),
            does="sends events, completions and states to webhooks, each entity's in their order",
        )
        parquet = Job(
            "parquet",
            ignited_by=_once(topic for row in self.parquet_files for topic in self.topics_of(row)),
            emits=(),
            does="writes events as Parquet files",
        )
        search = Job(
            "search",
            ignited_by=_once(self._with_state_by_name[row.of].topic for row in self.search_indexes),
            emits=(),
            does="writes states as documents of a search index",
        )
        views = (
            Job(
                row.job,
                ignited_by=self.topics_of(row),
                emits=(row.topic,),
                does=f"keeps version {row.version} of the view {row.name} up to date",
            )
            for row in self.views
        )
        waits = retry if self.waits else None
        needed = (
            enrich,
            waits,
            fold if self.entities else None,
            aggregate if self.aggregates else None,
        )
        by_rows = (
            parquet if self.parquet_files else None,
            search if self.search_indexes else None,
            *views,
        )
        return tuple(job for job in (*needed, persist, forward, *by_rows) if job)

    @property
    def completion_topics(self) -> tuple[str, ...]:
        states = (row.completion_topic for row in self.with_state if row.completions)
        return (*(row.completion_topic for row in self.event_types), *states)

    @property
    def at_most_once_topics(self) -> frozenset[str]:
        """Everything else comes at least once."""
        return frozenset(t.completion_topic for t in self.event_types if t.completed_at_most_once)

    def topics(self) -> tuple[Topic, ...]:
        for_ever = _kept(None)
        ingest = _kept(self.ingest_retention_days)
        waiting = _once(lane for job in self.jobs() for lane in job.waits_in)
        # by a time Kafka would remove what still waits, too: retry removes what is done
        waits = f"work that waits; {self.ingest_retention_days} days after it is done it goes"
        return (
            *(Topic(topic, ingest, "payloads as they came") for topic in self.ingest_topics),
            Topic(again_topic("enrich"), ingest, "payloads that come again"),
            *(Topic(topic, for_ever, "events, kept for ever") for topic in self.event_topics),
            *(
                Topic(row.topic, _kept(row.retention_days), "events once more, all on one topic")
                for row in self.all_events
            ),
            *(
                Topic(row.topic, _COMPACTED, "the latest snapshot of each")
                for row in self.with_state
            ),
            *(Topic(row.topic, _COMPACTED, "the latest rows of a view") for row in self.views),
            *(
                Topic(topic, for_ever, "rows that are durable, kept for ever")
                for topic in self.completion_topics
            ),
            *(Topic(table.topic, _COMPACTED, "master data") for table in self.published_tables),
            *(
                Topic(lane, for_ever, waits if lane in waiting else "work parked, kept for ever")
                for lane in self.lanes
            ),
            *(
                [
                    Topic(gate_topic("enrich"), _COMPACTED, "whose payloads wait"),
                    Topic(wake_topic("enrich"), ingest, "what may end their waiting"),
                ]
                if self.waits
                else []
            ),
            *([Topic(dropped_topic("enrich"), ingest, "dropped on purpose")] if self.drops else ()),
            *(
                [Topic(breach_topic("enrich"), ingest, "contracts broken by what became events")]
                if self.lets_breaches_pass
                else ()
            ),
            *(self._topics_of_fold(ingest) if self.entities else ()),
            Topic(again_topic("forward"), ingest, "events that are sent to one webhook again"),
            Topic(wake_topic("forward"), ingest, "what may end their waiting for a webhook"),
            Topic(gate_topic("forward"), _COMPACTED, "how much waits for webhooks"),
            Topic(DELIVERY_TOPIC, ingest, "each try to send an event to a webhook"),
            Topic(HOOK_TOPIC, _COMPACTED, "webhooks, with their secrets sealed"),
            Topic(JOB_STATUS_TOPIC, _COMPACTED, "what each job says of itself"),
            Topic(JOB_ORDER_TOPIC, _COMPACTED, "which jobs pause, or make their state anew"),
            Topic(CREDENTIAL_TOPIC, _COMPACTED, "who may ask the gateway, without their secrets"),
        )

    def _topics_of_fold(self, passing: Mapping[str, str]) -> Iterator[Topic]:
        yield Topic(REPEAT_TOPIC, passing, "payloads that fold knew")
        yield Topic(REFOLD_TOPIC, _COMPACTED, "entities that are to be folded anew")
        yield Topic(REFOLDED_TOPIC, passing, "entities that were folded anew")


def _kept(days: int | None) -> Mapping[str, str]:
    """None: for ever."""
    ms = -1 if days is None else days * _DAYS_MS
    return {**_LOG_TIME, "retention.ms": str(ms), "retention.bytes": "-1"}


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
