"""What the jobs say of themselves on the status topic, in Prometheus' format."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from gateway.monitor.job_status import JobStatus
from gateway.monitor.metric_family import metric
from shared.published.partition_lag import PARTITIONS_MAX, PartitionLag

_PREFIX = "headrace_job_"
_OF_A_LANE = (
    (GaugeMetricFamily, "waiting", "payloads", "Payloads that wait in it"),
    (GaugeMetricFamily, "waiting_entities", "entities", "Entities of which payloads wait in it"),
    (GaugeMetricFamily, "oldest_seconds", "oldest_s", "How long the oldest of them has waited"),
    (GaugeMetricFamily, "deadlines", "deadlines", "Deadlines of actions, which wait on purpose"),
    (GaugeMetricFamily, "at_cap", "at_cap", "Entities and tenants of which no more may wait"),
    (CounterMetricFamily, "woken", "woken", "Payloads that went on, by the job's process"),
    (CounterMetricFamily, "parked", "parked", "Payloads that were given up, by the job's process"),
)
_BREAKER = {"closed": 0, "half-open": 1, "open": 2}
_NONE = PartitionLag(0, 0.0)
Read = Mapping[str, Collection[tuple[str, str]]]  # the partitions that each job reads, by topic


def job_metrics(said: Mapping[str, JobStatus | None], read: Read | None = None) -> Iterator[Metric]:
    statuses = {job: status for job, status in said.items() if status is not None}
    yield metric(
        GaugeMetricFamily,
        f"{_PREFIX}running",
        "1 where the job has just said that it works",
        ("job",),
        [((job,), float(_runs(status))) for job, status in said.items()],
    )
    yield _gauge(
        "failed",
        "1 where the job has stopped and stays down until an operator acts",
        statuses,
        lambda one: float(one.state == "failed"),
    )
    yield _gauge(
        "silent_seconds", "Since the job's last word", statuses, lambda one: one.silent_ms / 1000
    )
    yield _gauge(
        "lag_records", "Records that it has yet to finish", statuses, lambda one: one.lag_records
    )
    yield _gauge(
        "lag_seconds",
        "How long the oldest of them has been there; it grows while the job is silent",
        statuses,
        lambda one: one.lag_s,
    )
    yield from _of_partitions(statuses, read or {})
    yield _gauge(
        "rows_per_second", "Of its last batch", statuses, lambda one: one.number("rows_per_s")
    )
    yield _gauge(
        "hooks_stopped",
        "Webhooks that get nothing, although nobody has paused them",
        {job: status for job, status in statuses.items() if "hooks" in status.said},
        lambda one: len(one.stopped_hooks),
    )
    breakers = {
        (job, store): _BREAKER[breaker.state]
        for job, status in statuses.items()
        for store, breaker in status.breakers.items()
    }
    meaning = "0 closed, 1 half-open, 2 open"
    labels = ("job", "store")
    yield metric(GaugeMetricFamily, f"{_PREFIX}breaker", meaning, labels, breakers.items())
    lanes = {lane: told for status in statuses.values() for lane, told in status.lanes.items()}
    for kind, name, number, meaning in _OF_A_LANE:
        numbers = [((lane,), told[number]) for lane, told in lanes.items()]
        yield metric(kind, f"headrace_lane_{name}", meaning, ("lane",), numbers)
    yield metric(
        CounterMetricFamily,
        "headrace_events_by_clock",
        "Events that fold took as late, or by their arrival as their device's clock is off, by the "
        "job's process",
        ("reason",),
        [((why,), n) for status in statuses.values() for why, n in status.clocks.items()],
    )


def _runs(status: JobStatus | None) -> bool:
    return status is not None and status.state == "running" and not status.is_silent


def _of_partitions(statuses: Mapping[str, JobStatus], read: Read) -> Iterator[Metric]:
    lags = {
        (job, *at): lag
        for job, status in statuses.items()
        for at, lag in _lags(status, read.get(job, ())).items()
    }
    labels = ("job", "topic", "partition")
    yield metric(
        GaugeMetricFamily,
        f"{_PREFIX}partition_lag_records",
        "Records of a partition that the job has yet to finish",
        labels,
        [(at, lag.records) for at, lag in lags.items()],
    )
    yield metric(
        GaugeMetricFamily,
        f"{_PREFIX}partition_lag_seconds",
        "How long the oldest of them has been there; it grows while the job is silent",
        labels,
        [(at, lag.seconds) for at, lag in lags.items() if lag.seconds is not None],
    )


def _lags(
    status: JobStatus, read: Collection[tuple[str, str]]
) -> dict[tuple[str, str], PartitionLag]:
    """It names only where something is unread, and of very many partitions not all of those."""
    knows_all = status.lag_records is not None and len(read) <= PARTITIONS_MAX
    return {**(dict.fromkeys(read, _NONE) if knows_all else {}), **status.partitions}


def _gauge(
    name: str,
    meaning: str,
    statuses: Mapping[str, JobStatus],
    read: Callable[[JobStatus], Any],
) -> Metric:
    numbers = {(job,): read(status) for job, status in statuses.items()}
    known = [(job, number) for job, number in numbers.items() if number is not None]
    return metric(GaugeMetricFamily, _PREFIX + name, meaning, ("job",), known)
