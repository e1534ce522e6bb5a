"""The states and the event log of a running stack, for a rehearsal of another fold."""

from collections.abc import Callable

from confluent_kafka import KafkaException

from clients.kafka.read_range import WholeTopics
from local_stack.machine.settings_check import chosen_flow
from local_stack.terminal.errors import LOOK, StackError
from shared.consumer_groups import OPERATOR
from shared.events.envelope import EventRecord
from shared.events.event_reader import EventReader, NoEvent
from shared.folding.applier import Applier, entity_fingerprint
from shared.folding.rehearsal import Rehearsal
from shared.folding.snapshot import decode_with_fold
from shared.settings import JobSettings


def rehearse(bootstrap: str, name: str) -> tuple[Rehearsal, str]:
    """And the fingerprint of the fold that was rehearsed."""
    flow = chosen_flow()
    entity = next((row for row in flow.entities if row.name == name), None)
    if entity is None:
        known = ", ".join(row.name for row in flow.entities)
        raise StackError(f"no entity is called {name!r}", f"there are: {known}")
    settings = JobSettings(kafka_bootstrap=bootstrap)
    types = {row.name: row for row in flow.event_types}
    topics = [*dict.fromkeys(types[event_type].topic for event_type in entity.reads)]
    rehearsal = Rehearsal(Applier(entity, settings.id_ring_size, types), topics)
    try:
        _read_states(settings, rehearsal, entity.topic)
        _read_events(settings, rehearsal.event, topics, EventReader.of(flow))
        if rehearsal.asks:
            _read_events(settings, rehearsal.once_more, topics, EventReader.of(flow))
    except KafkaException as error:
        reason = error.args[0].str()
        raise StackError(f"Kafka at {bootstrap} does not answer: {reason}", LOOK) from error
    return rehearsal, entity_fingerprint(entity)


def _read_states(settings: JobSettings, rehearsal: Rehearsal, topic: str) -> None:
    for record in WholeTopics(settings.kafka, OPERATOR, [topic]).read():
        entity_id = (record.key or b"").decode(errors="replace")
        try:
            found = (None, "") if record.value is None else decode_with_fold(record.value)
        except (ValueError, KeyError, TypeError):
            continue  # nobody's snapshot
        rehearsal.live(entity_id, *found)


def _read_events(
    settings: JobSettings,
    take: Callable[[EventRecord], None],
    topics: list[str],
    events: EventReader,
) -> None:
    for record in WholeTopics(settings.kafka, OPERATOR, topics).read():
        try:
            event = events.read(record.position, record.key, record.value or b"")
        except NoEvent:
            continue  # fold parked it
        take(event)
