"""Who a job's one copy is, as the metadata of the job's committed offsets says."""

from collections.abc import Iterable
from typing import NamedTuple

import orjson


class Claim(NamedTuple):
    """A claim to a job. Of two the greater one counts: the later epoch, by its run where two are as
    late."""

    epoch: int
    run: str
    host: str = ""
    checkpoint: str = ""  # Spark's id of the query, which ends with the checkpoint
    released: bool = False
    beat: int = 0

    def note(self) -> str:
        return orjson.dumps(self._asdict()).decode()

    def outranks(self, other: "Claim") -> bool:
        return (self.epoch, self.run) > (other.epoch, other.run)


def claim_from(note: str) -> Claim | None:
    """None where somebody else has written the metadata, a tool that sets offsets for example."""
    try:
        return Claim(**orjson.loads(note))
    except (ValueError, TypeError):
        return None


def highest(notes: Iterable[str]) -> Claim | None:
    claims = filter(None, map(claim_from, notes))
    return max(claims, key=lambda one: (one.epoch, one.run, one.beat), default=None)
