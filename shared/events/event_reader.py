"""A record of an event topic -> the event, in today's shape: the one place where old ones are
lifted. Whoever folds or stores events reads them here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.events.envelope import EventRecord, Position, event_value, read_event
from shared.model import EventType
from shared.user_code import describe_error

if TYPE_CHECKING:
    from shared.flow_table import Flow

# orjson reads a deeper one than it writes: what has no more brackets is none of these
_WRITABLE_LEVELS = 250


class NoEvent(Exception):  # noqa: N818 - it is what was found there
    """Nothing that its topic promises; args: reason, detail."""


@dataclass(frozen=True)
class EventReader:
    # by topic and name: types may share a topic
    types: Mapping[str, Mapping[str, EventType]]

    @classmethod
    def of(cls, flow: "Flow") -> "EventReader":
        return cls(
            {
                topic: {row.name: row for row in flow.event_types if row.topic == topic}
                for topic in flow.event_topics
            }
        )

    def read(self, position: Position, key: bytes | None, value: bytes) -> EventRecord:
        """NoEvent says why it is none; anyone may have written it."""
        try:
            record = read_event(position, value)
        except ValueError as error:
            raise NoEvent("no_event", str(error)) from error
        if key != record.entity_id.encode():
            # it would be folded where its entity is not, and get a second state there
            raise NoEvent("wrong_key", f"the event is of {record.entity_id!r}")
        types = self.types[position.topic]
        event_type = types.get(record.type)
        if event_type is None:
            # its completion would go to a topic that nobody declared
            names = " and ".join(map(repr, types))
            raise NoEvent("wrong_type", f"{record.type!r} on the topic of {names}")
        if record.shape == event_type.shape:
            # each bracket is closed, too, so a short one has not so many
            if (
                len(value) <= 2 * _WRITABLE_LEVELS
                or value.count(b"{") + value.count(b"[") <= _WRITABLE_LEVELS
            ):
                return record
        else:
            record = _lifted(event_type, record)
        return _writable(record)


def _lifted(event_type: EventType, record: EventRecord) -> EventRecord:
    if not 0 < record.shape < event_type.shape:
        raise NoEvent(
            "unknown_shape",
            f"{event_type.name} has the shapes 1 to {event_type.shape}, not {record.shape}: "
            "start the version that wrote it, or a newer one",
        )
    data = record.data
    for upcaster in event_type.upcasters[record.shape - 1 :]:
        try:
            data = upcaster(data)
            if not isinstance(data, dict):
                raise TypeError(f"an upcaster returns the data, a dict, not {type(data).__name__}")
        except Exception as error:  # an upcaster is a user's code
            raise NoEvent("upcaster_failed", describe_error(error, upcaster)) from error
    return record._replace(data=data, shape=event_type.shape)


def _writable(record: EventRecord) -> EventRecord:
    """Whoever parks or emits it would stop where it cannot be written."""
    try:
        event_value(record)
    except TypeError as error:
        raise NoEvent("not_writable", f"the event cannot be written as JSON: {error}") from error
    return record
