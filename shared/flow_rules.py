"""What makes a flow's table one that does not add up, each told with what to do. Pure. In one file
because every rule is one of the same table."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Protocol, get_args

from shared.actions import Action
from shared.actions.rules import refuse_bad_actions
from shared.contract import contract_of, payload_contract, versions_of
from shared.formats import ByField, refuse_bad_formats
from shared.ids import ENTITY_ID, ENTITY_ID_RULE
from shared.lookups.rules import refuse_bad_lookups
from shared.model import (
    TABLES_OF_THE_SCHEMA,
    Aggregate,
    AllEvents,
    ContractMode,
    Endpoint,
    Entity,
    EventType,
    Example,
    ParquetFiles,
    SearchIndex,
    Table,
    View,
)
from shared.retry_policy import RetryPolicy
from shared.search.rules import refuse_bad_search_indexes
from shared.tables.indexed_fields import refuse_bad_indexed_fields
from shared.tables.parquet_rules import refuse_bad_parquet_files
from shared.tables.view_rules import refuse_bad_views
from shared.topic_names import VIEW_TOPICS

_NAME = re.compile("[a-z0-9_]+")
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class FlowTable(Protocol):
    """What the rules look at. `shared.flow_table.Flow` is one, and imports these rules."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]: ...
    @property
    def event_types(self) -> tuple[EventType, ...]: ...
    @property
    def entities(self) -> tuple[Entity, ...]: ...
    @property
    def aggregates(self) -> tuple[Aggregate, ...]: ...
    @property
    def all_events(self) -> tuple[AllEvents, ...]: ...
    @property
    def with_state(self) -> tuple[Entity | Aggregate, ...]: ...
    @property
    def actions(self) -> tuple[Action, ...]: ...
    @property
    def open_endpoints(self) -> tuple[Endpoint, ...]: ...
    @property
    def tables(self) -> tuple[Table, ...]: ...
    @property
    def parquet_files(self) -> tuple[ParquetFiles, ...]: ...
    @property
    def search_indexes(self) -> tuple[SearchIndex, ...]: ...
    @property
    def views(self) -> tuple[View, ...]: ...

    def topics(self) -> Sequence[_Named]: ...


def refuse_what_does_not_add_up(flow: FlowTable) -> None:
    for endpoint in flow.endpoints:
        fields = "emits", "master", "fresh", "states", "lookups", "formats", "drops"
        refuse_what_is_no_tuple(endpoint, *fields)
        refuse_bad_formats(f"endpoint {endpoint.name}", endpoint.formats)
        if endpoint.contract_mode not in get_args(ContractMode):
            modes = ", ".join(get_args(ContractMode))
            raise ValueError(f"endpoint {endpoint.name}: contract_mode is one of {modes}")
        if endpoint.contract_mode != "enforce" and endpoint.payload is None:
            raise ValueError(
                f"endpoint {endpoint.name} has no contract to {endpoint.contract_mode}: give its "
                "payload's"
            )
        _refuse_bad_retry(f"endpoint {endpoint.name}", endpoint.retry)
    for entity in flow.entities:
        refuse_what_is_no_tuple(entity, "folds", "emits", "deleted_by")
    for event_type in flow.event_types:
        refuse_what_is_no_tuple(event_type, "upcasters")
        _refuse_bad_retry(f"event type {event_type.name}", event_type.retry)
    for row in flow.with_state:
        refuse_what_is_no_tuple(row, "indexed")
        _refuse_bad_retry(row.name, row.retry)
        if row.retry and not row.retry.in_order:
            raise ValueError(f"{row.name}: a retry without order is for event types, not states")
    for kind, names in (
        ("endpoint", [row.name for row in flow.endpoints]),
        ("event type", [row.name for row in flow.event_types]),
        ("entity or aggregate", [row.name for row in flow.with_state]),
        ("table", [row.name for row in flow.tables]),
        ("action", [row.name for row in flow.actions]),
        ("table of files", [row.name for row in flow.parquet_files]),
        ("view", [*dict.fromkeys(row.name for row in flow.views)]),  # in several versions
    ):
        _refuse_bad_names(kind, names)
    refuse_bad_actions(flow)
    for rows in (flow.endpoints, flow.event_types):
        _refuse_bad_streams(rows)
    _refuse_bad_topics([row.topic_name for row in _with_topic(flow) if row.topic_name])
    if not flow.endpoints:
        raise ValueError("the flow has no endpoint: nothing could ever come in")
    for endpoint in flow.endpoints:
        if not endpoint.emits:
            raise ValueError(f"endpoint {endpoint.name} emits no event type: it ends in silence")
    types = {row.name for row in flow.event_types}
    for owner, named in [(f"endpoint {e.name}", e.emits) for e in flow.endpoints] + [
        (f"entity {e.name}", (*e.reads, *e.emits)) for e in flow.entities
    ]:
        for name in named:
            if name not in types:
                raise ValueError(f"{owner} names event type {name!r}, which no row declares")
    for entity in flow.entities:
        _refuse_bad_emissions(entity)
    _refuse_circles(flow.entities)
    with_state = [row.name for row in flow.with_state]
    for endpoint in flow.endpoints:
        for name in endpoint.states:
            if name not in with_state:
                known = ", ".join(with_state) or "none"
                raise ValueError(
                    f"endpoint {endpoint.name} looks at the state of {name!r}, which is no "
                    f"entity or aggregate of this flow; there are: {known}"
                )
    refuse_bad_lookups(flow)
    entities = {row.name for row in flow.entities}
    for aggregate in flow.aggregates:
        if aggregate.members not in entities:
            raise ValueError(
                f"aggregate {aggregate.name} has {aggregate.members!r} as members, "
                "which is no entity of this flow"
            )
    _refuse_bad_all_events(flow.all_events, entities)
    _refuse_bad_tables(flow)
    refuse_bad_parquet_files(flow.parquet_files, flow.event_types)
    refuse_bad_search_indexes(flow.search_indexes, with_state)
    for endpoint in flow.endpoints:
        for version in _versions(endpoint):
            make = partial(payload_contract, endpoint, version)
            _refuse_bad_contract(f"endpoint {endpoint.name}", make)
    for kind, contracts in (
        ("event type", [(row.name, row.data) for row in flow.event_types]),
        ("entity or aggregate", [(row.name, row.state) for row in flow.with_state]),
        ("table", [(row.name, row.row) for row in flow.tables]),
        ("view", [(row.name, row.row) for row in flow.views]),
    ):
        for name, shape in contracts:
            if shape is not None:
                _refuse_bad_contract(f"{kind} {name}", partial(contract_of, shape))
    for row in flow.with_state:
        refuse_bad_indexed_fields(row)
    refuse_bad_views(flow.views, flow.event_types)
    for endpoint in flow.endpoints:
        if endpoint.example:
            _refuse_bad_example(endpoint, endpoint.example)
    for entity in flow.entities:
        _refuse_bad_initial(entity)
    for table in flow.tables:
        _refuse_bad_key(table)
    names = [topic.name for topic in flow.topics()]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"topic {name!r} belongs to two rows: each owns its own")


def refuse_what_is_no_tuple(owner: object, *fields: str) -> None:
    for name in fields:
        value = getattr(owner, name)
        if not isinstance(value, tuple):
            row = getattr(owner, "name", "the flow")
            raise ValueError(f"{row}: {name} is no tuple: one alone needs a comma, too, (one,)")


def _refuse_bad_tables(flow: FlowTable) -> None:
    for table in flow.tables:
        if table.name in TABLES_OF_THE_SCHEMA:
            raise ValueError(
                f"table {table.name!r} is there already (./headrace devices): choose another name"
            )
        if table.source and table.in_sql:
            raise ValueError(
                f"table {table.name} has a source and is in_sql: its rows come on one way alone"
            )
        if table.source and (why_not := table.source.why_not()):
            raise ValueError(f"table {table.name}: its source cannot be: {why_not}")
    known = {*TABLES_OF_THE_SCHEMA, *(table.name for table in flow.tables)}
    in_sql = {*TABLES_OF_THE_SCHEMA, *(table.name for table in flow.tables if table.in_sql)}
    for endpoint in flow.endpoints:
        for name in endpoint.master:
            if name not in known:
                raise ValueError(
                    f"endpoint {endpoint.name} looks up {name!r}, which no table declares: add "
                    f"Table({name!r}) to the flow's tables"
                )
        for fresh in endpoint.fresh:
            if fresh.table not in in_sql:
                raise ValueError(
                    f"endpoint {endpoint.name} wants {fresh.name!r} of {fresh.table!r} fresh: only "
                    "tables of PostgreSQL of their own can be asked at each use"
                )


def _refuse_bad_key(table: Table) -> None:
    fields = contract_of(table.row).json_schema().get("properties") if table.row else None
    if fields is not None and fields.get(table.key, {}).get("type") != "string":
        raise ValueError(
            f"table {table.name}: its rows have no text {table.key!r}, which is to hold their key: "
            "name the field that does, Table(…, key=…)"
        )
    since = table.valid_from
    if fields is not None and since and fields.get(since, {}).get("type") != "integer":
        raise ValueError(
            f"table {table.name}: its rows have no whole number {since!r}, which is to say from "
            "when on they count, in epoch milliseconds"
        )
    if since and table.in_sql:
        raise ValueError(f"table {table.name}: valid_from is for tables that are not in_sql")


def _refuse_bad_emissions(entity: Entity) -> None:
    if bool(entity.emits) != (entity.derive is not None):
        raise ValueError(
            f"entity {entity.name}: derive and emits go together: the function, and the event "
            "types that it makes"
        )
    for name, follow in entity.emits_on.items():
        if name not in entity.reads or not isinstance(follow, tuple) or {*follow} - {*entity.emits}:
            raise ValueError(
                f"entity {entity.name}: emits_on[{name!r}]: an event type that it reads, and a "
                "tuple of those of its `emits` that may follow"
            )
    both = set(entity.folds) & set(entity.deleted_by)
    if both:
        raise ValueError(f"entity {entity.name} is deleted by {both.pop()!r}, and folds it, too")


def _refuse_circles(entities: tuple[Entity, ...]) -> None:
    """What follows from an event must not come back to it, on whatever way: that could go on for
    ever."""
    for entity in entities:
        for name in entity.reads:
            reached: set[str] = set()
            coming = set(entity.may_emit(name))
            while coming:
                reached |= coming
                follow = {n for e in entities for r in coming & {*e.reads} for n in e.may_emit(r)}
                coming = follow - reached
            if name in reached:
                raise ValueError(
                    f"entity {entity.name} would be changed by what it emits itself: {name} leads "
                    "to another one. Say in `emits_on` which events lead to which"
                )


def _refuse_bad_contract(owner: str, make: Callable[[], object]) -> None:
    try:
        make()
    except Exception as error:  # a user's own class may fail in any way
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{owner} has a contract that cannot be used: {reason}") from error


def _versions(endpoint: Endpoint) -> Iterable[str | None]:
    versions = versions_of(endpoint)
    if versions is None:
        return [None]
    if why_not := versions.why_not():
        raise ValueError(f"endpoint {endpoint.name}: its versions cannot be: {why_not}")
    return versions.shapes


def _refuse_bad_initial(entity: Entity) -> None:
    try:
        state = entity.initial(f"{entity.name}-0001")
    except Exception as error:  # a user's own code may fail in any way
        what = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"entity {entity.name}: its initial state cannot be made: {what}"
        ) from error
    if not isinstance(state, dict):
        kind = type(state).__name__
        raise ValueError(f"entity {entity.name}: its initial state is {kind}, it must be a dict")
    if entity.state and (breach := contract_of(entity.state).breach(state)):
        raise ValueError(
            f"entity {entity.name}: its initial state breaks its contract: {breach.detail}"
        )


def _refuse_bad_example(endpoint: Endpoint, example: Example) -> None:
    if not ENTITY_ID.fullmatch(example.entity_id):
        raise ValueError(f"the example of endpoint {endpoint.name}: {ENTITY_ID_RULE}")
    version, versions = None, versions_of(endpoint)
    if versions and isinstance(versions.by, ByField):
        version = versions.by.of(example.payload, "") or versions.unnamed
        if version not in versions.shapes:
            raise ValueError(f"the example of endpoint {endpoint.name} names no version that is")
    contract = payload_contract(endpoint, version)
    if contract and (breach := contract.breach(example.payload)):
        raise ValueError(
            f"the example of endpoint {endpoint.name} breaks its contract: {breach.detail}"
        )


def _refuse_bad_all_events(rows: Sequence[AllEvents], entities: Collection[str]) -> None:
    for row in rows:
        if row.of is not None and row.of not in entities:
            raise ValueError(f"AllEvents is of {row.of!r}, which is no entity of this flow")
        if row.retention_days is not None and row.retention_days < 1:
            raise ValueError(
                f"{row.topic} is kept for {row.retention_days} days: name 1 or more, or leave "
                "retention_days out to keep it for ever"
            )


def _with_topic(
    flow: FlowTable,
) -> tuple[Endpoint | EventType | AllEvents | Entity | Aggregate, ...]:
    return (*flow.endpoints, *flow.event_types, *flow.all_events, *flow.with_state)


def _refuse_bad_retry(owner: str, policy: RetryPolicy | None) -> None:
    if policy and (why_not := policy.why_not()):
        raise ValueError(f"{owner}: its retry policy cannot be: {why_not}")


def _refuse_bad_names(kind: str, names: list[str]) -> None:
    for name in names:
        # a dot and an underscore collide in Kafka's metric names: topic parts hold neither dots
        # nor capitals
        if not _NAME.fullmatch(name):
            raise ValueError(f"{kind} {name!r}: use lower-case letters, digits and _")
        if names.count(name) > 1:
            raise ValueError(f"{kind} {name!r} is declared twice")


def _refuse_bad_streams(rows: Sequence[Endpoint] | Sequence[EventType]) -> None:
    streams = {row.stream: row.topic for row in rows if row.stream is not None}
    _refuse_bad_names("stream", [*streams])
    owners: dict[str, str | None] = {}
    for row in rows:
        if row.stream is not None and row.topic != streams[row.stream]:
            raise ValueError(f"stream {row.stream} has two topics, {row.topic!r} and another")
        if row.topic in owners and (row.stream is None or owners[row.topic] != row.stream):
            raise ValueError(
                f"topic {row.topic!r} belongs to two rows: each owns its own, or both name a stream"
            )
        owners[row.topic] = row.stream


def _refuse_bad_topics(names: list[str]) -> None:
    for name in names:
        if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
            raise ValueError(
                f"topic {name!r}: use 1 to 249 letters, digits, dots, underscores and dashes"
            )
        if name.startswith(VIEW_TOPICS):
            raise ValueError(
                f"topic {name!r}: only views have topics that begin with {VIEW_TOPICS}"
            )
