"""Whether topics have the copies that they should, and cannot lose what is acknowledged. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

_NAMED_MAX = 3
MIN_IN_SYNC = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"


class Copies(NamedTuple):
    """The copies of one topic, as its brokers say."""

    topic: str
    partitions: Sequence[tuple[int, int]]  # of each: replicas, and those in sync
    min_in_sync: int | None = None  # None: it was not told
    unclean: bool | None = None

    @classmethod
    def of(
        cls, topic: str, partitions: Sequence[tuple[int, int]], config: Mapping[str, str]
    ) -> "Copies":
        """`config`: of the topic; nothing where it may not be known."""
        least, unclean = config.get(MIN_IN_SYNC), config.get(UNCLEAN)
        return cls(
            topic,
            partitions,
            None if least is None else int(least),
            None if unclean is None else unclean == "true",
        )

    @property
    def fewest(self) -> int:
        return min((replicas for replicas, _ in self.partitions), default=0)


class Trouble(NamedTuple):
    status: str  # fail: payloads are refused; warn: a failure more, and there is loss
    text: str


def troubles(topics: Iterable[Copies], wanted: int) -> Iterator[Trouble]:
    """`wanted`: how many replicas the settings say."""
    topics = list(topics)
    below = [one.topic for one in topics if any(n < _needed(one, r) for r, n in one.partitions)]
    if below:
        yield Trouble(
            "fail",
            f"fewer replicas are in sync than {MIN_IN_SYNC}, so nothing can be written to "
            f"{_names(below)}: bring the missing brokers back",
        )
    behind = [
        one.topic
        for one in topics
        if one.topic not in below and any(n < replicas for replicas, n in one.partitions)
    ]
    if behind:
        yield Trouble("warn", f"not all replicas are in sync of {_names(behind)}: look at Kafka")
    few = [one for one in topics if 0 < one.fewest < wanted]
    if few:
        yield Trouble(
            "warn",
            f"HEADRACE_REPLICATION={wanted}, and {_names([one.topic for one in few])} has "
            f"{min(one.fewest for one in few)}: the setting changes no topic that is there; add "
            "replicas with kafka-reassign-partitions",
        )
    alone = [one.topic for one in topics if one.min_in_sync == 1 and one.fewest >= 2]
    if alone:
        yield Trouble(
            "warn",
            f"{MIN_IN_SYNC} is 1: what is acknowledged may be on one broker alone, of "
            f"{_names(alone)}: set it to 2, with three replicas",
        )
    unclean = [one.topic for one in topics if one.unclean]
    if unclean:
        yield Trouble(
            "warn",
            f"{UNCLEAN} is true: a broker that lacks acknowledged records may come to lead "
            f"{_names(unclean)}: set it to false",
        )


def _needed(one: Copies, replicas: int) -> int:
    return min(one.min_in_sync or 1, replicas) if replicas else 0


def _names(topics: Sequence[str]) -> str:
    more = len(topics) - _NAMED_MAX
    return ", ".join(sorted(topics)[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
