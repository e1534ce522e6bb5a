"""What fold starts from: its checkpoint, or, where that cannot be, what it has published.

A checkpoint is only a cache of the state topics. It is of no use when it is lost, when the number
of state partitions has changed, which Spark keeps for its whole life, or when a fold
has. Then the job starts with the last snapshots and the events after the offsets that it published
last; where snapshots are of another fold, with all events, and each entity's new state takes the
place of the old one as soon as it contains what that did.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from clients.kafka.offsets import LogOffsets
from clients.kafka.read_range import WholeTopics
from clients.kafka.records import Offsets, Outgoing
from clients.kafka.write import publish
from shared.consumer_groups import of_job
from shared.events.envelope import EventRecord
from shared.flow_table import Flow
from shared.folding import refolding, snapshot
from shared.folding.code_fingerprint import entity_fingerprint
from shared.settings import JobSettings
from shared.topic_names import REFOLD_TOPIC, REFOLDED_TOPIC
from stream_jobs.fold.emission_rows import EmissionRows
from stream_jobs.guards import checkpoint_identity
from stream_jobs.guards.checkpoint_folder import checkpoint_of
from stream_jobs.supervision.status import Report

_log = logging.getLogger(__name__)
STAGE = "fold"
_TELL_EVERY_S = 2.0


class Start(NamedTuple):
    """Where a query without a checkpoint begins."""

    offsets: Offsets | None  # of the event topics; None: with the first event
    snapshots: Offsets  # the ends of the state topics, up to which they are read; none: no need
    # event topic/partition: where snapshots speak of records that are not there
    made_anew: frozenset[str]

    @property
    def starts(self) -> dict[str, int]:
        """Event topic/partition -> the first offset that is read; none: all are."""
        return {
            f"{topic}/{partition}": offset
            for topic, partitions in (self.offsets or {}).items()
            if topic != REFOLDED_TOPIC
            for partition, offset in partitions.items()
        }


class Published(NamedTuple):
    ends: Offsets
    records: int
    positions: dict[str, int]  # event topic/partition -> the highest that a snapshot speaks of
    emissions: list[EventRecord]
    of_another_fold: set[str]  # entities
    none_of: set[str]  # entities
    asking: dict[tuple[str, str], snapshot.Snapshot]  # by entity and id: for a refold


def start(settings: JobSettings, flow: Flow, say: Report) -> Start | None:
    """None: the checkpoint is as it should be. Otherwise it is removed."""
    checkpoint = checkpoint_of(settings, STAGE)
    folds = {row.name: entity_fingerprint(row) for row in flow.entities}
    identity = checkpoint_identity.identity(settings, folds)
    why = checkpoint_identity.why_not(checkpoint, identity)
    if why is None:
        return None
    with LogOffsets(settings.kafka, of_job(STAGE), flow.fold_reads) as group:
        offsets, ranges = group.committed().offsets, group.ranges()
    published = _read_published(settings, flow, why, say)
    made_anew = set()
    for (topic, partition), its in ranges.items():
        log = f"{topic}/{partition}"
        if published.positions.get(log, -1) >= its.end:
            made_anew.add(log)
            offsets[topic][partition] = its.start
    again = sorted(published.of_another_fold | published.none_of)
    if published.records:
        said = f"{why}: starts with the last of {published.records} snapshot records"
        said += f", with all events of {', '.join(again)}" if again else ""
        said += f"; {', '.join(sorted(made_anew))} ends before what they know" if made_anew else ""
        say("rebuilding", said)
        count = publish(settings.kafka, _events(flow, published.emissions))
        _log.info("fold published %d emissions again", count)
    snapshots = published.ends if published.records else {}
    found = Start(None if again else offsets, snapshots, frozenset(made_anew))
    publish(settings.kafka, _requests(published.asking, found.starts))
    checkpoint_identity.begin_anew(checkpoint, identity)
    return found


def _read_published(settings: JobSettings, flow: Flow, why: str, say: Report) -> Published:
    """The whole of the state topics, of which each key's last record counts."""
    entities = {row.topic: row for row in flow.entities}
    folds = {row.topic: entity_fingerprint(row) for row in flow.entities}
    emissions: dict[tuple[str, bytes], list[EventRecord]] = {}
    foreign: set[tuple[str, bytes]] = set()
    seen: set[str] = set()
    asking: dict[tuple[str, str], snapshot.Snapshot] = {}
    positions: dict[str, int] = {}
    count, told_s = 0, time.monotonic()
    topics = WholeTopics(settings.kafka, of_job(STAGE), entities.keys())
    for position, key, value, *_ in topics.read():
        count += 1
        if time.monotonic() - told_s > _TELL_EVERY_S:
            told_s = time.monotonic()
            say("rebuilding", f"{why}: {count} of {topics.records} snapshot records are read")
        place = position.topic, key or b""
        emissions.pop(place, None)
        foreign.discard(place)
        whose = entities[position.topic].name, (key or b"").decode(errors="replace")
        asking.pop(whose, None)
        if value is None:
            continue
        try:
            found, fold = snapshot.decode_with_fold(value)
        except (ValueError, KeyError, TypeError):
            continue  # nobody's snapshot: the handler passes it over, too
        seen.add(position.topic)
        for log, offset in found.positions.items():
            positions[log] = max(offset, positions.get(log, -1))
        if found.emissions:
            emissions[place] = found.emissions
        if fold != folds[position.topic]:
            foreign.add(place)
        elif found.asked:
            asking[whose] = found
    return Published(
        ends=topics.ends,
        records=count,
        positions=positions,
        emissions=[record for own in emissions.values() for record in own],
        of_another_fold={entities[topic].name for topic, _ in foreign},
        none_of={row.name for topic, row in entities.items() if topic not in seen},
        asking=asking,
    )


def _requests(
    asking: Mapping[tuple[str, str], snapshot.Snapshot], starts: Mapping[str, int]
) -> Iterator[Outgoing]:
    """What these entities got while they were refolded was held in the checkpoint: the refold takes
    it in, too."""
    for (entity, entity_id), now in asking.items():
        refolding.start_from(now, starts)
        request = refolding.request_of(entity, entity_id, now)
        yield Outgoing(REFOLD_TOPIC, request.key, refolding.request_value(request), [])


def _events(flow: Flow, emissions: list[EventRecord]) -> Iterator[Outgoing]:
    """Under the ids that they have: the batch that emitted them may have been cut short between
    its snapshots and these."""
    rows = EmissionRows(flow)
    return (row for record in emissions for row in rows.of(record))
