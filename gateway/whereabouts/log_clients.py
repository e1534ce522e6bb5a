"""Kafka's clients for questions about payloads, which are kept between questions: to make one, and
to let it get to know the brokers, takes longer than all that it is asked."""

import time
from collections.abc import Mapping
from functools import cached_property

from clients.kafka.offsets import ANSWERS_SOON, LogOffsets
from clients.kafka.read_at import RecordsAt
from clients.kafka.read_range import RangeReader
from shared.consumer_groups import of_job
from shared.kafka_access import KafkaAccess

_ANSWER_S = 3.0
_STALLED_S = 10
_COUNTED_FOR_S = 5.0


class LogClients:
    """Each is made when it is first needed. One question's at a time."""

    def __init__(self, kafka: KafkaAccess, group: str) -> None:
        self.kafka = kafka
        self._group = group
        self._counts: Mapping[str, int] | None = None
        self._counted_s = 0.0

    @cached_property
    def offsets(self) -> LogOffsets:
        return LogOffsets(self.kafka, self._group, answer_s=_ANSWER_S, options=ANSWERS_SOON)

    @cached_property
    def enrich(self) -> LogOffsets:
        """In the name of enrich's group: how far that one is."""
        return LogOffsets(self.kafka, of_job("enrich"), answer_s=_ANSWER_S, options=ANSWERS_SOON)

    @cached_property
    def single(self) -> RecordsAt:
        return RecordsAt(self.kafka, self._group, _ANSWER_S)

    @cached_property
    def ranges(self) -> RangeReader:
        return RangeReader(self.kafka, self._group, _STALLED_S, in_pieces=True)

    def partition_counts(self) -> Mapping[str, int]:
        """The partitions of each topic; a topic that was widened a moment ago may be told as it
        was."""
        if self._counts is None or time.monotonic() > self._counted_s + _COUNTED_FOR_S:
            known = self.offsets.metadata()
            self._counts = {topic: len(its.partitions) for topic, its in known.items()}
            self._counted_s = time.monotonic()
        return self._counts

    def close(self) -> None:
        made = vars(self)
        for name in ("offsets", "enrich", "single", "ranges"):
            if name in made:
                made.pop(name).close()
