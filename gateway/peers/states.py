"""Snapshots of states by their keys, whichever gateway holds them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gateway.state_view.reader import Found, Progress, StateView
from shared.model import Aggregate, Entity

WITHIN_S = 2.5  # for all who are asked, one after the other
Wanted = tuple[Entity | Aggregate, str]


class Told(NamedTuple):
    progress: Progress
    found: Found | None


UNKNOWN = Told(Progress(False, None), None)


class States:
    """Each gateway holds all of them."""

    def __init__(self, view: StateView) -> None:
        self.view = view

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def is_divided(self, of: Entity | Aggregate) -> bool:  # noqa: ARG002
        return False

    def here(self, of: Entity | Aggregate, key: str) -> Told | None:
        """None where others are to be asked."""
        return Told(*self.view.find(of.topic, key.encode()))

    async def find(self, of: Entity | Aggregate, key: str, within_s: float = WITHIN_S) -> Told:
        """UNKNOWN, or another one that is not warm, where it is not known now."""
        told = self.here(of, key)
        return told or (await self.find_all([(of, key)], within_s))[of.name, key]

    async def find_all(
        self,
        wanted: Iterable[Wanted],
        within_s: float = WITHIN_S,  # noqa: ARG002
    ) -> Mapping[tuple[str, str], Told]:
        """What is known of states, by the names of entities, and keys."""
        return {(of.name, key): self.here(of, key) or UNKNOWN for of, key in wanted}
