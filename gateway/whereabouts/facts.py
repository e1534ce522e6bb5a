"""All that is known of one payload."""

from collections.abc import Sequence
from typing import NamedTuple

from shared.events.envelope import Position
from shared.model import Fields


class Payload(NamedTuple):
    """As it stands in the ingest log."""

    place: Position
    appended_ms: int
    endpoint: str
    entity_id: str  # with its tenant
    bytes: int
    spooled_ms: int | None = None  # it lay in a gateway's spool before, since then


class Spooled(NamedTuple):
    """On a gateway's own disk, because Kafka took nothing."""

    topic: str
    entity_id: str
    bytes: int
    since_ms: int


class Row(NamedTuple):
    """A row of headrace.event."""

    key: int
    stored_at: str
    is_completed: bool | None  # None: too many completions are to be sent to say so
    completion_topic: str
    completed_ms: int | None = None  # None: its completion was not come upon
    completion_place: str | None = None


class Event(NamedTuple):
    """That came of the payload."""

    id: str
    type: str
    entity_id: str
    place: str
    time: str | None = None  # its own one, where that is known
    written_ms: int | None = None  # to its topic
    revision: int = 0
    saw: Fields | None = None
    row: Row | None = None
    repeats: str | None = None  # it came of another payload of the same id, which stands there


class Folded(NamedTuple):
    """A state that has the event."""

    event_id: str
    entity: str
    entity_id: str
    version: int
    at: str | None
    is_exact: bool  # else that version has it, and so may earlier ones


class Delivery(NamedTuple):
    """A try to send it to a webhook."""

    event_id: str
    at_ms: int
    told: Fields  # to whom and what that one said, where the one who asks may know it


class Ended(NamedTuple):
    """As the log tells it: nobody has made a letter of it yet, or it was dropped on purpose."""

    how: str  # "parked" or "dropped"
    by: str
    reason: str
    detail: str
    at_ms: int
    place: str


class Waits(NamedTuple):
    by: str  # the stage
    reason: str
    detail: str
    entity_id: str
    behind: Fields | None = None  # of the line: its first one, and how many there are
    told: Fields | None = None  # since when, and when it is tried again
    is_first: bool = True


class Facts(NamedTuple):
    id: str
    payload: Payload | None
    events: Sequence[Event] = ()
    parts: int | None = None  # how many events its payload has become; None: not known
    letters: Sequence[Fields] = ()
    folded: Sequence[Folded] = ()
    deliveries: Sequence[Delivery] = ()
    spooled: Spooled | None = None
    waits: Waits | None = None
    ended: Ended | None = None
    # where enrich goes on in the payload's partition; None: it has not begun
    enrich_goes_on_at: int | None = None
    # how the log was searched, if something was not found
    searched: str = ""

    @property
    def is_known(self) -> bool:
        return bool(self.payload or self.events or self.letters or self.spooled)
