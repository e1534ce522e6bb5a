"""What the desk has, for Prometheus. No device's id is a label."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from desk.letters.store import LetterBook
from gateway.monitor.metric_family import metric

# a letter that came back was redriven as often as it did
_REDRIVEN = """
    SELECT stage,
           sum(again + CASE WHEN status IN ('redriven', 'done') THEN letters ELSE 0 END)::bigint,
           sum(again)::bigint
    FROM headrace.letter_count GROUP BY stage
"""
_LETTERS = """
    SELECT status, stage, cause, letters, came_back,
           coalesce(extract(epoch FROM now() - oldest.parked_at), 0)::float8
    FROM (SELECT status, stage, cause, sum(letters)::bigint AS letters,
                 sum(came_back)::bigint AS came_back
          FROM headrace.letter_count GROUP BY status, stage, cause
          HAVING sum(letters) > 0 ORDER BY sum(letters) DESC LIMIT 500) AS kind
    LEFT JOIN LATERAL (
        SELECT parked_at FROM headrace.letter
        WHERE (letter.status, letter.stage, letter.cause) = (kind.status, kind.stage, kind.cause)
        ORDER BY parked_at LIMIT 1
    ) AS oldest ON true
"""


class DeskMetrics(Collector):
    def __init__(self, book: LetterBook) -> None:
        self._book = book

    def collect(self) -> Iterator[Metric]:
        letters, stages = self._book.values(_LETTERS), self._book.values(_REDRIVEN)
        kind, labels = GaugeMetricFamily, ("status", "stage", "cause")
        for column, name, meaning in (
            (3, "headrace_letters", "Dead letters by what became of them"),
            (4, "headrace_letters_came_back", "Of these, those that came back"),
            (5, "headrace_letters_oldest_seconds", "Since the oldest of these was parked"),
        ):
            yield metric(kind, name, meaning, labels, [(row[:3], row[column]) for row in letters])
        for column, name, meaning in (
            (1, "headrace_letters_redriven", "Letters that were sent on again"),
            (2, "headrace_letters_failed_again", "Of these, those that came back"),
        ):
            numbers = [(row[:1], row[column]) for row in stages]
            yield metric(CounterMetricFamily, name, meaning, ("stage",), numbers)
