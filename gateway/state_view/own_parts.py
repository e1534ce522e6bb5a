"""Which parts of the states this gateway holds."""

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol


class Share(Protocol):
    @property
    def gateways(self) -> Sequence[str]:
        """Who may hold what this one does not. Nobody: that is not known yet."""

    @property
    def trouble(self) -> str:
        """Why states may be held less often than they are to be; empty: nothing is wrong."""

    def divides(self, topic: str) -> bool: ...

    def parts(self, topic: str, partitions: Collection[int]) -> Iterator[tuple[str, set[int]]]:
        """As the view names them."""

    def takes(self, part: str, *, is_held: bool) -> bool: ...


class WholeCopy:
    """Each gateway holds all."""

    gateways = ()
    trouble = ""

    def divides(self, topic: str) -> bool:  # noqa: ARG002
        return False

    def parts(self, topic: str, partitions: Collection[int]) -> Iterator[tuple[str, set[int]]]:
        yield topic, {*partitions}

    def takes(self, part: str, *, is_held: bool) -> bool:  # noqa: ARG002
        return True
