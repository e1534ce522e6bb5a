"""Aggregates without a member whose published total says otherwise: so it is where the last one
left while the job's checkpoint was lost. Adding up members again would never come by them."""

from collections.abc import Iterator

from clients.kafka.read_range import WholeTopics
from clients.kafka.records import Outgoing
from shared.consumer_groups import of_job
from shared.flow_table import Flow
from shared.folding import snapshot
from shared.folding.code_fingerprint import fold_fingerprint
from shared.model import Aggregate, Fields
from shared.settings import JobSettings
from stream_jobs.aggregate import sums
from stream_jobs.aggregate.sums import Latest, Members, Part

_GROUP = of_job("aggregate")


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
    for record in WholeTopics(settings.kafka, _GROUP, [topic]).read():
        try:
            member = sums.member_state(record.key, record.value)
        except ValueError:
            continue  # nobody's snapshot
        try:
            sums.take(aggregate, members, member)
        except Exception:  # a share is a user's code; the job parks it, with the reason
            sums.leave(members, member)
        if (latest := members.get(member.id)) is not None:  # of which only the id is needed
            members[member.id] = Latest(latest.version, latest.of, Part(None, {}))
    return {latest.of for latest in members.values() if latest.of is not None}


def _published(settings: JobSettings, aggregate: Aggregate) -> dict[str, tuple[Fields, int]]:
    found: dict[str, tuple[Fields, int]] = {}
    for record in WholeTopics(settings.kafka, _GROUP, [aggregate.topic]).read():
        if record.key is None or record.value is None:
            continue
        try:
            facts = snapshot.read_facts(record.value)
            known = found.get(aggregate_id := record.key.decode())
        except ValueError:
            continue
        if known is None or facts.version >= known[1]:
            found[aggregate_id] = facts.state, facts.version
    return found
