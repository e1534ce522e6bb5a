"""What a payload costs each part, as it was measured, or as it is shipped where nothing was."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PartCost:
    """CPU in microseconds, except for what says otherwise."""

    event_us: float = 0.0
    state_us: float = 0.0  # for each state that a batch changes
    kib_us: float = 0.0  # for each KiB of payload
    post_us: float = 0.0
    batch_ms: float = 0.0
    batches_per_s: float = 0.0  # where few events come all the time
    busy_cores: float = 0.0  # likewise, beyond what each costs
    rest_cores: float = 0.0  # where nothing comes
    start_s: float = 0.0  # of CPU, until it works
    memory_mib: float = 0.0


@dataclass(frozen=True)
class Sizes:
    """Bytes on disk: of each event beside its payload, for each byte of the payload, of a state."""

    ingest: float
    ingest_per_byte: float
    event: float
    event_per_byte: float
    completion: float
    row: float
    row_per_byte: float
    state_record: float
    state_row: float
    state_in_view: float
    state_in_spark: float


@dataclass(frozen=True)
class Costs:
    machine: str
    parts: Mapping[str, PartCost]
    sizes: Sizes
    shipped: bool = False

    @property
    def said(self) -> str:
        if self.shipped:
            return (
                f"From the figures that are shipped, of {self.machine}; yours may be twice as "
                "quick, or half: ./headrace plan --measure takes those of this machine."
            )
        return f"From the figures measured here: {self.machine}."
