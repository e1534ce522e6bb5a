"""The health document in Prometheus' format, and what it does not have: what was ever written to
lanes, and until when certificates are valid. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gateway.monitor.metric_family import metric

_STATUS = {"pass": 0, "warn": 1, "fail": 2}


def health_metrics(
    document: Mapping[str, Any], lane_written: Mapping[str, int]
) -> Iterator[Metric]:
    yield metric(
        GaugeMetricFamily,
        "headrace_health_check",
        "Each check of GET /health: 0 pass, 1 warn, 2 fail",
        ("check",),
        [((name,), _STATUS[check["status"]]) for name, (check,) in document["checks"].items()],
    )
    yield metric(
        CounterMetricFamily,
        "headrace_lane_written",
        "Records that were ever written to the topic of a lane",
        ("lane",),
        [((lane,), records) for lane, records in lane_written.items()],
    )


def certificate_metrics(ends: Mapping[str, float]) -> Iterator[Metric]:
    yield metric(
        GaugeMetricFamily,
        "headrace_gateway_certificate_end_timestamp_seconds",
        "When what a file of TLS has is valid no longer, by its setting; 0: it cannot be read",
        ("file",),
        [((name,), at_s) for name, at_s in ends.items()],
    )
