"""What was measured under one load, as it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from local_stack.plan.parts import JOBS, touched


@dataclass(frozen=True)
class Load:
    name: str
    events: int
    entities: int
    body_bytes: int
    per_post: int = 1_000
    per_s: float = 0.0  # 0: as fast as the gateway takes them
    clients: int = 1


@dataclass(frozen=True)
class Sample:
    load: Load
    posted_s: float  # until all was posted
    seconds: float  # until all was worked off
    batches: Mapping[str, int]
    cpu_s: Mapping[str, float]
    memory_mib: Mapping[str, float] = field(default_factory=dict)
    disk_bytes: Mapping[str, int] = field(default_factory=dict)  # that were added

    def times(self, part: str) -> dict[str, float]:
        """How often each thing was done that has a cost of its own."""
        load = self.load
        job = part if part in JOBS else "persist"
        return {
            "post": load.events / load.per_post,
            "event": load.events,
            "state": self.states,
            "kib": load.events * load.body_bytes / 1024,
            "batch": self.batches[job],
            "second": self.posted_s if load.per_s else 0.0,
        }

    @property
    def states(self) -> float:
        """How many were written: one for each entity of each of fold's batches."""
        batches = max(1, self.batches["fold"])
        return batches * touched(self.load.events / batches, self.load.entities)
