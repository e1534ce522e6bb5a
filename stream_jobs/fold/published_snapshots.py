"""What fold has published, where a bucket without a checkpoint begins with it."""

from collections.abc import Mapping
from functools import cached_property

from shared.flow import load_flow
from shared.folding import refolding, snapshot
from shared.folding.catch_up import folded_anew
from shared.folding.snapshot import Snapshot
from shared.model import Entity
from stream_jobs.state.buckets import unpack
from stream_jobs.state.bulk_map_state import Key


class PublishedSnapshots:
    def __init__(self, flow: str, made_anew: frozenset[str], starts: Mapping[str, int]) -> None:
        self._flow_reference = flow
        self._made_anew = made_anew
        self._starts = starts
        self._offsets: dict[Key, int] = {}

    @cached_property
    def _entity_by_topic(self) -> dict[str, str]:
        return {row.topic: row.name for row in load_flow(self._flow_reference).entities}

    def last(self, packed: bytes) -> dict[Key, tuple[int, bytes | None]]:
        """Parts of a bucket come in any order, and a key's last record counts."""
        records = sorted(unpack(packed), key=lambda record: record[0])
        return {
            (self._entity_by_topic[at.topic], raw_id.decode(errors="replace")): (at.offset, value)
            for at, raw_id, value in records
            if raw_id is not None
        }

    def knows(self, key: Key) -> bool:
        return key in self._offsets

    def is_newest(self, key: Key, offset: int) -> bool:
        if offset < self._offsets.get(key, offset):
            return False
        self._offsets[key] = offset
        return True

    def read(self, entity: Entity, its_id: str, value: bytes, fingerprint: str) -> Snapshot | None:
        try:
            published, fold = snapshot.decode_with_fold(value)
        except (ValueError, KeyError, TypeError):
            return None  # nobody's snapshot
        for log in self._made_anew & published.positions.keys():
            del published.positions[log]  # what stands there now is known by id alone
        if fold != fingerprint:
            types = load_flow(self._flow_reference).event_types
            logs = frozenset(row.topic for row in types if row.name in entity.reads)
            published = folded_anew(entity, its_id, published, logs)
        refolding.start_from(published, self._starts)
        return published
