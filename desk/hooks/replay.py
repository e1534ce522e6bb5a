"""Events that one hook is to get once more, from the log."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import Message

from clients.kafka.connect import answering
from clients.kafka.messages import headers_of, position_of
from clients.kafka.offsets import LogOffsets
from clients.kafka.read_range import RangeReader
from clients.kafka.records import LogRange, Outgoing, Record, or_end
from shared.consumer_groups import DESK
from shared.events import envelope
from shared.flow_table import Flow
from shared.forwarding.cloud_event import CloudEvent, is_for
from shared.forwarding.hook import Hook
from shared.forwarding.state_event import state_event
from shared.kafka_access import KafkaAccess
from shared.topic_names import again_topic, wake_topic

_READ_S = 30.0
_OURS = (envelope.HOOK, envelope.ORIGIN, envelope.REPLAY)


class Window(NamedTuple):
    """A time span: what arrived from its begin on, and before its end."""

    since_ms: int
    until_ms: int
    entity: str | None = None  # with its tenant; None: all

    def has(self, message: Message) -> bool:
        key = (message.key() or b"").decode(errors="replace")
        return self.since_ms <= message.timestamp()[1] < self.until_ms and self.entity in (
            None,
            key,
        )


def replayed(
    kafka: KafkaAccess, flow: Flow, hook: Hook, window: Window
) -> Iterator[list[Outgoing]]:
    """In log order, chunk by chunk."""
    forward = flow.job("forward")
    own = (again_topic("forward"), wake_topic("forward"))
    states = flow.state_by_topic
    topics = [
        topic
        for topic in forward.ignited_by
        if topic not in own and (topic in states) == (hook.of == "states")
    ]
    with answering(kafka), closing(RangeReader(kafka, DESK, _READ_S)) as reader:
        for messages in reader.read(_ranges(kafka, topics, window)):
            came = (_came(message, states) for message in messages if window.has(message))
            yield [
                _again(one, hook)
                for one in came
                if one is not None and is_for(hook, CloudEvent(one.key, one.value, one.headers))
            ]


def _ranges(kafka: KafkaAccess, topics: Sequence[str], window: Window) -> list[LogRange]:
    with LogOffsets(kafka, DESK, topics) as log:
        ends = log.ends()
        since = log.since(dict.fromkeys(ends, window.since_ms))
        until = log.since(dict.fromkeys(ends, window.until_ms))
    return [
        LogRange(*at, first, end)
        for at, first in since.items()
        if first is not None and first < (end := or_end(until, at, ends[at]))
    ]


def _came(message: Message, states: Mapping[str, str]) -> Record | None:
    """As hooks get it. None: nobody can get anything of it."""
    place, at_ms = position_of(message), message.timestamp()[1]
    key, value, headers = message.key(), message.value(), headers_of(message) or []
    if entity := states.get(place.topic):
        made = state_event(entity, place, key, value, at_ms)
        if made is None:
            return None
        value, headers = made
    return Record(place, key, value, headers, at_ms)


def _again(one: Record, hook: Hook) -> Outgoing:
    headers = [
        *(header for header in one.headers if header[0] not in _OURS),
        (envelope.HOOK, hook.name.encode()),
        (envelope.ORIGIN, str(one.position).encode()),
        (envelope.REPLAY, b"1"),
    ]
    return Outgoing(again_topic("forward"), one.key, one.value, headers)
