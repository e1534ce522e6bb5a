"""What one worker has done with payloads, counted where it happens."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from gateway.http.problems import UNKNOWN_OUTCOME, Problem
from gateway.kafka_writer.outcome import NotWritten, Outcome, OutcomeUnknown, Receipt, Spooled
from gateway.node.shared_counters import Row

# of a batch's line: the id of its event, or why it was refused at once; None: it is blank
Line = str | Problem | None

ACCEPTED = "payloads_accepted"
REFUSED = "payloads_refused"
REQUESTS_REFUSED = "requests_refused"
PRODUCE_S = "produce_s"
PRODUCE_BUCKET = "produce_bucket"

# upper bounds: a quick broker answers within the first ones, the last is the usual deadline
_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BOUNDS = (*map(str, _BOUNDS_S), "+Inf")


class _Places(NamedTuple):
    into_kafka: int
    into_spool: int
    produce_s: int
    buckets: tuple[int, ...]


class Counts:
    def __init__(self, row: Row) -> None:
        self.row = row
        self._endpoints: dict[str, _Places] = {}

    def accepted(self, endpoint: str, outcome: Receipt | Spooled) -> None:
        places = self._endpoints.get(endpoint) or self._places(endpoint)
        spooled = isinstance(outcome, Spooled)
        self.row.values[places.into_spool if spooled else places.into_kafka] += 1

    def produced(self, endpoint: str, took_s: float) -> None:
        """The outcome of a POST's payloads is known."""
        places, values = self._endpoints.get(endpoint) or self._places(endpoint), self.row.values
        values[places.produce_s] += took_s
        values[places.buckets[bisect_left(_BOUNDS_S, took_s)]] += 1

    def refused(self, endpoint: str, reason: str, payloads: int = 1) -> None:
        self.row.values[self.row.place((REFUSED, endpoint, reason))] += payloads

    def request_refused(self, reason: str) -> None:
        """Before anybody knew what it was about, or while its body came."""
        self.row.values[self.row.place((REQUESTS_REFUSED, reason))] += 1

    def batch(
        self,
        endpoint: str,
        lines: Sequence[Line],
        outcomes: Sequence[Outcome],
    ) -> None:
        for line in lines:
            if isinstance(line, Problem):
                self.refused(endpoint, line.code)
        for outcome in outcomes:
            if isinstance(outcome, NotWritten):
                self.refused(endpoint, outcome.code)
            elif isinstance(outcome, OutcomeUnknown):
                self.refused(endpoint, UNKNOWN_OUTCOME)
            else:
                self.accepted(endpoint, outcome)

    def _places(self, endpoint: str) -> _Places:
        """To be looked for once."""
        places = self._endpoints[endpoint] = _Places(
            self.row.place((ACCEPTED, endpoint, "kafka")),
            self.row.place((ACCEPTED, endpoint, "spool")),
            self.row.place((PRODUCE_S, endpoint)),
            tuple(self.row.place((PRODUCE_BUCKET, endpoint, le)) for le in BOUNDS),
        )
        return places
