"""A metric of Prometheus, from the rows of its numbers."""

from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Kind = type[CounterMetricFamily] | type[GaugeMetricFamily]
Rows = Iterable[tuple[Sequence[str], float]]  # the values of its labels, and the number


def metric(kind: Kind, name: str, meaning: str, labels: Sequence[str], rows: Rows) -> Metric:
    found = kind(name, meaning, labels=labels)
    for values, number in rows:
        found.add_metric(values, number)
    return found
