"""How states are divided among gateways, as the view's writer tells it to its readers."""

from collections.abc import Mapping
from typing import NamedTuple


class DividedTopic(NamedTuple):
    topic_id: str
    partitions: int


class Division(NamedTuple):
    gateways: tuple[str, ...]  # their addresses
    topics: Mapping[str, DividedTopic]
    trouble: str  # why states may be held less often than they are to be
