"""How far a job is behind in each partition, as it says so on the status topic. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

PARTITIONS_MAX = 500  # a report stays small, and so does what is made of it


class PartitionLag(NamedTuple):
    records: float  # that the job has yet to finish
    seconds: float | None  # age of the oldest of them; None: it was not read in time


def told(lags: Mapping[tuple[str, int], PartitionLag]) -> dict[str, dict[str, list[Any]]]:
    """The lags of those partitions that are furthest behind."""

    def behind(at: tuple[str, int]) -> tuple[float, float]:
        return lags[at].seconds or 0.0, lags[at].records

    found: dict[str, dict[str, list[Any]]] = {}
    for topic, partition in sorted(lags, key=behind, reverse=True)[:PARTITIONS_MAX]:
        found.setdefault(topic, {})[str(partition)] = [*lags[topic, partition]]
    return found


def read(said: Any) -> dict[tuple[str, str], PartitionLag]:
    """The lags by topic and partition. Anything may have been said: what is no lag is left out."""
    return {
        (topic, partition): PartitionLag(*lag)
        for topic, partitions in (said.items() if isinstance(said, dict) else ())
        for partition, lag in (partitions.items() if isinstance(partitions, dict) else ())
        if _is_lag(lag)
    }


def _is_lag(lag: Any) -> bool:
    match lag:
        case [int() | float(), int() | float() | None]:
            return True
    return False
