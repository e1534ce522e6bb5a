"""What the desk has, for Prometheus. No device's id is a label."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from desk.letters.store import LetterBook

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
        labels = ("status", "stage", "cause")
        letters = GaugeMetricFamily(
            "headrace_letters", "Dead letters by what became of them", labels=labels
        )
        again = GaugeMetricFamily(
            "headrace_letters_came_back", "Of these, those that came back", labels=labels
        )
        oldest = GaugeMetricFamily(
            "headrace_letters_oldest_seconds", "Since the oldest of these was parked", labels=labels
        )
        for *of, count, came_back, age_s in self._book.values(_LETTERS):
            letters.add_metric(of, count)
            again.add_metric(of, came_back)
            oldest.add_metric(of, age_s)
        redriven = CounterMetricFamily(
            "headrace_letters_redriven", "Letters that were sent on again", labels=("stage",)
        )
        failed = CounterMetricFamily(
            "headrace_letters_failed_again", "Of these, those that came back", labels=("stage",)
        )
        for stage, sent, came_back in self._book.values(_REDRIVEN):
            redriven.add_metric((stage,), sent)
            failed.add_metric((stage,), came_back)
        yield from (letters, again, oldest, redriven, failed)
