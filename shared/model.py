"""The words that a domain is written in: payloads become events, events fold into entities, and
entities add up to aggregates. A row of each kind stands in the flow (`shared/flow.py`).
In one file because whoever writes a domain finds all its words there."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

from shared.formats import Format, Json, RegisteredAvro
from shared.lookups import HttpLookup
from shared.master_data import SqlSource, TopicSource
from shared.retry_policy import RetryPolicy
from shared.topic_names import VIEW_TOPICS, master_topic

Fields = dict[str, Any]
ContractMode = Literal["enforce", "warn", "observe"]
ViewResults = Literal["update", "final"]
VIEW_JOB = "view_"  # a job's name begins so, and its view's follows
_PAUSE_MAX_S = 366 * 86_400
# what the schema has and publishes, whatever a flow looks up (`headrace devices`)
TABLES_OF_THE_SCHEMA = ("device", "device_model")


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


class NotYet(Exception):  # noqa: N818
    """This payload cannot become an event yet, and no row of master data says when it can: it waits
    in the retry lane and is tried again, as the endpoint's `retry` says. Later payloads of the same
    entity wait behind it."""

    def __init__(self, why: str, after_s: float | None = None, *, away: bool = False) -> None:
        """`after_s`: in place of the policy's next pause. `away`: what it waits for is known to be
        away as a whole, so this try and the time until the next one do not count."""
        if after_s is not None and not 0 <= after_s <= _PAUSE_MAX_S:
            raise ValueError(f"after_s is {after_s}: from 0 to {_PAUSE_MAX_S}, which is a year")
        super().__init__(why)
        self.why = str(why)
        self.after_s = after_s
        self.away = away


class MasterRows(Protocol):
    """Last known master data, by table and key."""

    def find(self, table: str, key: str) -> Fields | None: ...

    def find_at(self, table: str, key: str, time_ms: int) -> Fields | None:
        """The row that counted at that time, in a table with `valid_from`."""
        ...


class MasterData(MasterRows, Protocol):
    """And the last published state of entities and aggregates that the endpoint's `states` name,
    and what the services of its `lookups` say."""

    def state(self, name: str, key: str) -> Fields | None:
        """None where there is none, or where it is deleted. It may be older than what was folded
        meanwhile: what must hold in any case is the fold's to decide."""
        ...

    def version(self, name: str, key: str) -> int:
        """The version of that state; 0 where there is none."""
        ...

    def answer(self, name: str, key: str) -> Any:
        """What that look-up answers: JSON as it came back, None where nothing is known of the key.
        NotYet where there is no answer now; whoever has a better way than to wait may catch it."""
        ...

    def answers(self, name: str, keys: Iterable[str]) -> dict[str, Any]:
        """The answers by key; all of them are asked at once."""
        ...


class Arrival(NamedTuple):
    """What the log knows of a payload before anyone has read it."""

    entity_id: str
    arrived_ms: int  # in the log, by its clock
    received_ms: int | None = None  # by the gateway, where its spool held the payload meanwhile

    @property
    def at_ms(self) -> int:
        """When a payload came that does not say it itself. Our own delay is no part of that; and
        a gateway's clock may be wrong, but nothing is received after it was written."""
        if self.received_ms is None:
            return self.arrived_ms
        return min(self.received_ms, self.arrived_ms)


class Draft(NamedTuple):
    """An event without its envelope: what an endpoint's enrichment makes of a payload, or an entity
    of a change of its state."""

    type: str
    time_ms: int
    data: Fields
    # None: the id that the payload was posted under, or that of the entity which has changed
    entity_id: str | None = None


class Event(NamedTuple):
    """What a fold sees of an event. `time_ms` is event time, or arrival where the device's clock is
    off (`is_clock_off` in `shared/folding/event_clock.py`); `late` says that the entity has already
    folded an event of this type and of newer time."""

    id: str
    type: str
    entity_id: str
    time_ms: int
    arrived_ms: int
    late: bool
    data: Fields


class Dropped(NamedTuple):
    """What an endpoint's enrichment makes of a payload that is to become no event, on purpose. The
    endpoint declares its reasons; the ledger counts them."""

    reason: str
    detail: str = ""


class Share(NamedTuple):
    """What a member adds to an aggregate."""

    of: str  # id of the aggregate
    fields: Fields


class FreshField(NamedTuple):
    """A field that must not be older than its use: it is read from the store for every micro-batch,
    and the job pauses while the store is away. For rows that are keyed by the payload's entity."""

    table: str
    key: str  # the column that holds the entity's id
    name: str


class Example(NamedTuple):
    """A payload to try an endpoint with, and whose it is."""

    entity_id: str
    payload: Fields


# Each row may give its contract: a TypedDict (of typing_extensions) or a pydantic
# model. It is published with the topics; payloads and events that do not keep it are dead letters.
# Each row may name its topic, too; it is made where it does not exist yet.


@dataclass(frozen=True)
class Endpoint:
    """A route that devices POST to. It owns one ingest topic, or shares that of its stream: then
    payloads of one entity keep the order in which the stream's endpoints accepted them."""

    name: str
    # what the format has decoded (of JSON objects a dict), its arrival, master data -> an event, or
    # several (a list, or what yields them), or none
    enrich: Callable[[Any, Arrival, MasterData], Draft | Iterable[Draft] | Dropped]
    emits: tuple[str, ...]  # event types
    master: tuple[str, ...] = ()  # tables of master data that it looks things up in
    fresh: tuple[FreshField, ...] = ()
    states: tuple[str, ...] = ()  # entities and aggregates whose state it looks at
    lookups: tuple[HttpLookup, ...] = ()  # services that it asks; needs `retry`
    payload: Any = None  # or its `Versions`
    example: Example | None = None
    topic_name: str | None = None
    # what payloads may be written in; of several, the content type chooses
    formats: tuple[Format, ...] = (Json(),)
    decompressed_bytes_max: int = 8 * 1024 * 1024
    drops: tuple[str, ...] = ()  # reasons
    stream: str | None = None
    # its enrichment or a look-up of it may raise NotYet: how long and how often it is tried again
    retry: RetryPolicy | None = None
    is_open: bool = True  # devices may post to it; the flow has others of its own
    # what a payload that breaks its contract becomes: a dead letter ("enforce"), or an event all
    # the same, counted ("observe"), and marked as well ("warn")
    contract_mode: ContractMode = "enforce"

    @cached_property
    def topic(self) -> str:
        return self.topic_name or f"ingest.{self.stream or self.name}.v1"

    @property
    def payload_type(self) -> str:
        """The header `ce_type` of its payloads."""
        return f"ingest.{self.name}"

    @cached_property
    def asks(self) -> bool:
        """Services, or the schema registry: so its payloads may have to wait for an answer."""
        return bool(self.lookups) or self.asks_registry

    @cached_property
    def asks_registry(self) -> bool:
        return any(isinstance(form, RegisteredAvro) for form in self.formats)

    @cached_property
    def has_other_than_json(self) -> bool:
        """JSON alone cannot say NaN or infinity."""
        return any(not isinstance(form, Json) for form in self.formats)

    @cached_property
    def foreign_kinds(self) -> frozenset[str]:
        """The kinds of values that its formats have and JSON has not."""
        return frozenset().union(*(form.foreign_kinds for form in self.formats))


@dataclass(frozen=True)
class EventType:
    """A kind of event in its common format. It owns one event topic, kept for ever, or shares that
    of its stream: then events of one entity keep their order across the stream's types."""

    name: str
    data: Any = None
    topic_name: str | None = None
    # one for each former shape of `data`, the oldest first, that makes the next one of it. Events
    # are kept for ever as they were written; whoever reads one sees it in today's shape
    upcasters: tuple[Callable[[Fields], Fields], ...] = ()
    # its completions come once or, where the relay dies with them under way, never. Otherwise they
    # come at least once, always under the same id
    completed_at_most_once: bool = False
    stream: str | None = None
    # how PostgreSQL is given its rows again that it does not take now and may take later
    retry: RetryPolicy | None = None

    @property
    def shape(self) -> int:
        """The shape of `data` today; the first one is 1."""
        return len(self.upcasters) + 1

    @cached_property
    def topic(self) -> str:
        return self.topic_name or f"event.{self.line}.v1"

    @property
    def line(self) -> str:
        """What its events keep their order in."""
        return self.stream or self.name

    @property
    def completion_topic(self) -> str:
        return f"completion.{self.name}.v1"


@dataclass(frozen=True)
class AllEvents:
    """One topic with every event, or with all that an entity folds and emits, beside the topics of
    their types. Key, value and headers are the same ones there."""

    of: str | None = None  # entity
    topic_name: str | None = None
    retention_days: int | None = None  # None: for ever

    @property
    def topic(self) -> str:
        return self.topic_name or f"events.{self.of or 'all'}.v1"


@dataclass(frozen=True)
class ParquetFiles:
    """Events of these types as rows of one table, in files under `folder`/`name`/day=…/, for
    whoever analyses them. The day is that of arrival."""

    name: str
    of: tuple[str, ...]  # event types
    folder: str  # a URI of a file system that Hadoop knows
    every_s: int = 60  # shorter: fresher, and more and smaller files

    @property
    def place(self) -> str:
        return f"{self.folder.rstrip('/')}/{self.name}"


@dataclass(frozen=True)
class SearchIndex:
    """The states of an entity or aggregate as documents of OpenSearch or Elasticsearch."""

    of: str
    name: str = ""  # by which it is searched; without one that of the entity

    @property
    def alias(self) -> str:
        return self.name or self.of


@dataclass(frozen=True)
class View:
    """A query in Spark's SQL over events, kept up to date: its rows are on a compacted topic, and
    GET /views shows them. An event type is a table there, with columns as its contract says."""

    name: str
    of: tuple[str, ...]  # event types; of several, the SQL joins them
    sql: str
    # the columns that tell its rows apart; a window does so, too, and need not be named
    key: tuple[str, ...]
    # rows as they grow, or each once when its window has closed
    results: ViewResults = "update"
    # an event that comes to the log later than that after its time is left out, and counted as late
    late_after_s: float = 3600.0
    # of the query: each has a topic of its own. No number is used again for another query
    version: int = 1
    # the contract of its rows: with it they are also in PostgreSQL, in a table that is called as
    # its job is
    row: Any = None

    @property
    def job(self) -> str:
        return f"{VIEW_JOB}{self.name}" + (f"_v{self.version}" if self.version > 1 else "")

    @property
    def topic(self) -> str:
        return f"{VIEW_TOPICS}{self.name}.v{self.version}"


@dataclass(frozen=True)
class Entity:
    """A thing with state: the fold of its events."""

    name: str
    folds: tuple[str, ...]  # event types
    initial: Callable[[str], Fields]  # entity id -> state before the first event
    fold: Callable[[Fields, Event], Fields]  # pure: no clock, no I/O, no randomness
    state: Any = None
    topic_name: str | None = None
    # state before, state after and the event in between -> what follows from that change; as pure
    derive: Callable[[Fields, Fields, Event], Iterable[Draft]] | None = None
    emits: tuple[str, ...] = ()  # event types that `derive` makes
    # event type that it reads -> which of `emits` may follow from that; of those not named, all
    emits_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    deleted_by: tuple[str, ...] = ()  # event types that end it; the next event starts it anew
    completions: bool = False  # one for each version that becomes a row: see `completion_topic`
    retry: RetryPolicy | None = None  # as that of an event type; always in order
    history: bool = False  # each version that is published is kept in PostgreSQL, for ever
    # fields of its contract, with dots for inner ones: GET /state/<name> finds and sorts by them
    indexed: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Event types."""
        return (*self.folds, *self.deleted_by)

    def may_emit(self, on: str) -> tuple[str, ...]:
        """When it reads an event of that type."""
        return self.emits_on.get(on, self.emits)

    @property
    def topic(self) -> str:
        return self.topic_name or f"state.{self.name}.v1"

    @property
    def completion_topic(self) -> str:
        return f"completion.state.{self.name}.v1"


@dataclass(frozen=True)
class Aggregate:
    """A thing whose state is what its members add up to, each with its latest share alone. So
    replays count once, and a member that moves takes its share along."""

    name: str
    members: str  # entity
    share: Callable[[Fields], Share | None]  # member's state -> its share; None where it has none
    # two shares -> what they are together. In whatever order shares meet, the sum must be the same
    add: Callable[[Fields, Fields], Fields]
    # id, the sum of all shares (None: the last member has left) -> the aggregate's state
    total: Callable[[str, Fields | None], Fields]
    state: Any = None
    topic_name: str | None = None
    completions: bool = False
    retry: RetryPolicy | None = None
    history: bool = False
    indexed: tuple[str, ...] = ()

    @property
    def topic(self) -> str:
        return self.topic_name or f"state.{self.name}.v1"

    @property
    def completion_topic(self) -> str:
        return f"completion.state.{self.name}.v1"


@dataclass(frozen=True)
class Table:
    """Master data of the domain's own: rows that enrichments find by `master.find(name, key)`. They
    are kept in PostgreSQL, written by `./headrace master` or the desk, and published on the table's
    topic."""

    name: str
    row: Any = None
    key: str = "id"  # the field of a row that holds its key
    # the field that says from when on it counts, in epoch milliseconds: then a key has several
    # rows, and `master.find_at` takes the one of a time
    valid_from: str | None = None
    # its rows stand in a table of your own, which `headrace.publish_table` publishes
    in_sql: bool = False
    # its rows stand in a store of yours, which is read: nobody else writes them here
    source: SqlSource | TopicSource | None = None

    @property
    def topic(self) -> str:
        return master_topic(self.name)
