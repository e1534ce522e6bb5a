"""Aggregates without a member whose published total says otherwise: so it is where the last one
left while the job's checkpoint was lost. Adding up members again would never come by them."""

from collections.abc import Iterator

from clients.kafka.records import Outgoing
from clients.kafka.whole_topic import WholeTopics
from shared.folding import snapshot
from shared.folding.applier import fold_fingerprint
from shared.model import Aggregate, Fields
from shared.settings import JobSettings
from shared.topology import Flow
from stream_jobs.aggregate import sums
from stream_jobs.aggregate.sums import Latest, Members, Part

_GROUP = "headrace-aggregate"


def emptied(settings: JobSettings, flow: Flow) -> Iterator[Outgoing]:
    """Their totals without members, to be published."""
    topics = {entity.name: entity.topic for entity in flow.entities}
    for aggregate in flow.aggregates:
        full = _ids_with_members(settings, aggregate, topics[aggregate.members])
        for aggregate_id, (state, version) in _published(settings, aggregate).items():
            empty = aggregate.total(aggregate_id, None)
            if aggregate_id not in full and state != empty:
                fingerprint = fold_fingerprint(aggregate.add)
                value = snapshot.encode_total(empty, version + 1, None, fingerprint)
                yield Outgoing(aggregate.topic, aggregate_id.encode(), value, [])


def _ids_with_members(settings: JobSettings, aggregate: Aggregate, topic: str) -> set[str]:
    members: Members = {}
    snapshots = WholeTopics(settings.kafka, _GROUP, [topic])
    try:
        for _, key, value in snapshots.read():
            try:
                member = sums.member_state(key, value)
            except ValueError:
                continue  # nobody's snapshot
            try:
                sums.take(aggregate, members, member)
            except Exception:  # a share is a user's code; the job parks it, with the reason
                sums.leave(members, member)
            if (latest := members.get(member.id)) is not None:  # of which only the id is needed
                members[member.id] = Latest(latest.version, latest.of, Part(None, {}))
    finally:
        snapshots.close()
    return {latest.of for latest in members.values() if latest.of is not None}


def _published(settings: JobSettings, aggregate: Aggregate) -> dict[str, tuple[Fields, int]]:
    found: dict[str, tuple[Fields, int]] = {}
    totals = WholeTopics(settings.kafka, _GROUP, [aggregate.topic])
    try:
        for _, key, value in totals.read():
            if key is None or value is None:
                continue
            try:
                facts = snapshot.read_facts(value)
                known = found.get(aggregate_id := key.decode())
            except ValueError:
                continue
            if known is None or facts.version >= known[1]:
                found[aggregate_id] = facts.state, facts.version
    finally:
        totals.close()
    return found
