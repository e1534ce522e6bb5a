"""How far the flow's views are and what they hold, in Prometheus' format."""

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gateway.monitor.job_news import JobNews
from gateway.monitor.metric_family import metric
from gateway.state_view.reader import StateView
from shared.model import View
from shared.timestamps import now_ms

_PREFIX = "headrace_view_"
_LABELS = "view", "version"
_OUTCOMES = "late", "corrections", "stragglers"


def view_metrics(views: Sequence[View], news: JobNews, source: StateView) -> Iterator[Metric]:
    rows = [((row.name, str(row.version)), float(source.count_of_view(row.topic))) for row in views]
    yield metric(GaugeMetricFamily, f"{_PREFIX}rows", "Rows in this gateway's copy", _LABELS, rows)
    statuses = news.statuses(row.job for row in views)
    said = {
        (row.name, str(row.version)): one.of_view
        for row in views
        if (one := statuses[row.job]) and one.of_view
    }
    yield metric(
        GaugeMetricFamily,
        f"{_PREFIX}watermark_delay_seconds",
        "How long ago the windows ended that are closed; it grows while the job is silent",
        _LABELS,
        [
            (which, max(0.0, (now_ms() - its["watermark_ms"]) / 1000))
            for which, its in said.items()
            if its.get("watermark_ms")
        ],
    )
    yield metric(
        CounterMetricFamily,
        f"{_PREFIX}events",
        "Events that came late, as corrections or as stragglers, by the job's process",
        (*_LABELS, "reason"),
        [((*which, why), its.get(why, 0)) for which, its in said.items() for why in _OUTCOMES],
    )
