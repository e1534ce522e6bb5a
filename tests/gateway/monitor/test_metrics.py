"""What /metrics says after POSTs that went well and badly."""

import os
import re
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.kafka_writer.outcome import NotWritten, OutcomeUnknown, Receipt, Record, Spooled
from gateway.monitor import ledger_check
from gateway.monitor.health_metrics import certificate_metrics, health_metrics
from gateway.monitor.job_metrics import job_metrics
from gateway.monitor.job_status import JobStatus
from gateway.monitor.metrics import PRODUCER_REPLACEMENTS, Metrics
from gateway.monitor.view_metrics import view_metrics
from gateway.node.node import Node, SharedMemory
from gateway.node.payload_counts import Counts
from gateway.spool.frame import Frame
from gateway.spool.spool import Spool
from shared.published.partition_lag import PARTITIONS_MAX
from tests.gateway.monitor.test_ledger_check import NOW_MS, said
from tests.gateway.support import Gateway, serving

OPERATIONS = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
REFUSED = "headrace_gateway_payloads_refused_total"
ACCEPTED = "headrace_gateway_payloads_accepted_total"


@pytest.fixture
def node() -> Node:
    return Node(worker=0, workers=2)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool", 1000, ["t"])
    yield spool
    spool.close()


@pytest.fixture
def metrics(node: Node, spool: Spool, gateway: Gateway) -> Metrics:
    metrics = Metrics(node, spool)
    metrics.add_families(lambda: ledger_check.metrics(said(), NOW_MS))
    metrics.add_families(lambda: job_metrics({}))
    health = gateway.health
    metrics.add_families(lambda: view_metrics((), health.news, health.view))
    metrics.add_families(health.metrics)
    metrics.add_families(lambda: certificate_metrics({}))
    return metrics


@pytest.fixture
def measured(gateway: Gateway, node: Node, metrics: Metrics) -> Gateway:
    return gateway.rebuilt(node=node, metrics=metrics)


def scraped(gateway: Gateway) -> dict[tuple[str, ...], float]:
    """Each sample by its name and the values of its labels."""
    answer = gateway.ask("GET", "/metrics")
    assert answer.status_code == 200
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_payloads_are_counted_by_endpoint_and_reason(measured: Gateway) -> None:
    measured.post()
    measured.post("/v1/status/device-0001")
    measured.post(content=b"")
    measured.post("/v1/nix/device-0001")
    measured.log.failure = NotWritten("kafka_unreachable", "away")
    measured.post()
    measured.log.failure = OutcomeUnknown()
    measured.post()
    measured.log.failure = RuntimeError("a fault")
    measured.post()
    found = scraped(measured)
    assert {name: value for name, value in found.items() if name[0] in (ACCEPTED, REFUSED)} == {
        (ACCEPTED, "telemetry", "kafka"): 1,
        (ACCEPTED, "telemetry", "spool"): 0,
        (ACCEPTED, "status", "kafka"): 1,
        (ACCEPTED, "status", "spool"): 0,
        (REFUSED, "telemetry", "empty_body"): 1,
        (REFUSED, "none", "unknown_endpoint"): 1,
        (REFUSED, "telemetry", "kafka_unreachable"): 1,
        (REFUSED, "telemetry", "outcome_unknown"): 1,
        (REFUSED, "telemetry", "internal_fault"): 1,
    }


def test_a_batch_counts_its_payloads(measured: Gateway) -> None:
    ndjson = {"content-type": "application/x-ndjson"}
    too_large = b"x" * 1001
    measured.post(content=b"1\n2\n" + too_large + b"\n", headers=ndjson)
    measured.post(content=b"x" * 2001, headers=ndjson)
    measured.log.failure = NotWritten("kafka_unreachable", "away")
    measured.post(content=b"1\n2\n3\n", headers=ndjson)
    found = scraped(measured)
    assert found[ACCEPTED, "telemetry", "kafka"] == 2
    assert found[REFUSED, "telemetry", "body_too_large"] == 2
    assert found[REFUSED, "telemetry", "kafka_unreachable"] == 3
    assert found["headrace_gateway_produce_seconds_count", "telemetry"] == 2


def test_what_the_protocol_refuses_is_counted_by_its_code(measured: Gateway, node: Node) -> None:
    with serving(measured, measured.settings, node) as served, served.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nno header\r\n\r\n")
        assert b" 400 " in connection.recv(1000)
    assert scraped(measured)["headrace_gateway_requests_refused_total", "malformed_request"] == 1


def test_the_time_to_the_outcome_is_a_histogram(measured: Gateway) -> None:
    measured.post()
    measured.log.pause_s = 0.3
    measured.post()
    found = scraped(measured)
    name = "headrace_gateway_produce_seconds"
    assert found[f"{name}_bucket", "telemetry", "0.25"] == 1
    assert found[f"{name}_bucket", "telemetry", "10.0"] == 2
    assert found[f"{name}_bucket", "telemetry", "+Inf"] == 2
    assert found[f"{name}_count", "telemetry"] == 2
    assert found[f"{name}_sum", "telemetry"] >= 0.3


def test_jobs_tell_their_lag_and_their_breakers(gateway: Gateway, node: Node) -> None:
    said = {
        "state": "running",
        "lag_records": 7,
        "lag_s": 2.5,
        "rows_per_s": None,
        "breakers": {"postgres": {"state": "open", "since_ms": 1, "reason": "away"}},
    }
    jobs = {
        "persist": JobStatus(said, silent_ms=500),
        "fold": JobStatus({"state": "running"}, silent_ms=9_000),
        "enrich": None,
    }
    metrics = Metrics(node)
    metrics.add_families(lambda: job_metrics(jobs))
    found = scraped(gateway.rebuilt(node=node, metrics=metrics))
    assert {name: value for name, value in found.items() if name[0].startswith("headrace_job")} == {
        ("headrace_job_running", "persist"): 1,
        ("headrace_job_running", "fold"): 0,
        ("headrace_job_running", "enrich"): 0,
        ("headrace_job_failed", "persist"): 0,
        ("headrace_job_failed", "fold"): 0,
        ("headrace_job_silent_seconds", "persist"): 0.5,
        ("headrace_job_silent_seconds", "fold"): 9,
        ("headrace_job_lag_records", "persist"): 7,
        ("headrace_job_lag_seconds", "persist"): 2.5,
        ("headrace_job_breaker", "persist", "postgres"): 2,
    }


PARTITIONS = {"event.a.v1": {"0": [7, 2.5], "1": [3, None], "2": "odd"}, "odd": 1}


def partition_lags(status: JobStatus, read: Collection[tuple[str, str]] = ()) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for family in job_metrics({"fold": status}, {"fold": read}):
        for sample in family.samples:
            if "partition" in sample.labels:
                of, topic, at = (sample.labels[name] for name in ("job", "topic", "partition"))
                assert of == "fold"
                name = sample.name.removeprefix("headrace_job_partition_lag_")
                found[f"{name} {topic}/{at}"] = sample.value
    return found


def test_a_job_tells_its_lag_in_each_partition_that_it_reads() -> None:
    said = {"state": "running", "lag_records": 10, "lag_s": 2.5, "partitions": PARTITIONS}
    read = [("event.a.v1", "0"), ("event.a.v1", "1"), ("event.a.v1", "3")]
    fold = JobStatus(said, silent_ms=500)
    assert partition_lags(fold, read) == {
        "records event.a.v1/0": 7,
        "seconds event.a.v1/0": 2.5,
        "records event.a.v1/1": 3,  # since when is not known
        "records event.a.v1/3": 0,
        "seconds event.a.v1/3": 0,
    }


def test_a_job_that_does_not_know_its_lag_tells_none_of_a_partition() -> None:
    unknown = {"state": "waiting", "lag_records": None, "lag_s": None, "partitions": {}}
    assert partition_lags(JobStatus(unknown, silent_ms=500), [("event.a.v1", "0")]) == {}


def test_of_very_many_partitions_only_those_are_told_that_are_behind() -> None:
    read = [("event.a.v1", str(at)) for at in range(PARTITIONS_MAX + 1)]
    said = {"state": "running", "lag_records": 7, "partitions": {"event.a.v1": {"0": [7, 2.5]}}}
    fold = JobStatus(said, silent_ms=500)
    assert partition_lags(fold, read) == {"records event.a.v1/0": 7, "seconds event.a.v1/0": 2.5}
    assert len(partition_lags(fold, read[1:])) == 2 * PARTITIONS_MAX + 2


def test_the_lag_of_a_partition_grows_while_its_job_is_silent() -> None:
    said = {"state": "running", "lag_records": 7, "partitions": {"event.a.v1": {"0": [7, 2.5]}}}
    found = partition_lags(JobStatus(said, silent_ms=60_000), [("event.a.v1", "1")])
    assert found["seconds event.a.v1/0"] == 62.5
    assert found["seconds event.a.v1/1"] == 0


def test_a_job_that_stays_down_and_webhooks_that_have_stopped_are_told() -> None:
    hooks = {"stopped": {"a": "paused: no answer", "b": "ended: status 410"}}
    said = {
        "fold": JobStatus({"state": "failed"}, silent_ms=0),
        "forward": JobStatus({"state": "running", "hooks": hooks}, silent_ms=0),
    }
    samples = [sample for family in job_metrics(said) for sample in family.samples]
    found = {(sample.name, *sample.labels.values()): sample.value for sample in samples}
    assert found["headrace_job_failed", "fold"] == 1
    assert found["headrace_job_failed", "forward"] == 0
    assert found["headrace_job_hooks_stopped", "forward"] == 2
    assert ("headrace_job_hooks_stopped", "fold") not in found


def test_health_and_what_lanes_got_are_metrics() -> None:
    checks = {"a": [{"status": "pass"}], "b": [{"status": "warn"}], "c": [{"status": "fail"}]}
    families = health_metrics({"checks": checks}, {"dlq.enrich.v1": 7})
    found = [(s.name, *s.labels.values(), s.value) for one in families for s in one.samples]
    assert found == [
        ("headrace_health_check", "a", 0),
        ("headrace_health_check", "b", 1),
        ("headrace_health_check", "c", 2),
        ("headrace_lane_written_total", "dlq.enrich.v1", 7),
    ]


def test_the_job_that_empties_a_lane_tells_what_waits_in_it() -> None:
    told = {"payloads": 7, "entities": 2, "oldest_s": 61.5, "woken": 3, "at_cap": 1, "odd": "?"}
    told["deadlines"] = 4
    retry = JobStatus({"lanes": {"retry.enrich.v1": told, "odd": []}}, silent_ms=500)
    samples = [sample for metric in job_metrics({"retry": retry}) for sample in metric.samples]
    found = {sample.name: sample.value for sample in samples if "lane" in sample.labels}
    assert found == {
        "headrace_lane_waiting": 7,
        "headrace_lane_waiting_entities": 2,
        "headrace_lane_oldest_seconds": 61.5,
        "headrace_lane_deadlines": 4,
        "headrace_lane_at_cap": 1,
        "headrace_lane_woken_total": 3,
        "headrace_lane_parked_total": 0,
    }


def test_fold_tells_what_it_thought_of_the_devices_clocks() -> None:
    fold = JobStatus({"clocks": {"late": 3, "clock_off": 2}}, silent_ms=500)
    samples = [sample for metric in job_metrics({"fold": fold}) for sample in metric.samples]
    found = {s.labels["reason"]: s.value for s in samples if "events_by_clock" in s.name}
    assert found == {"late": 3, "clock_off": 2}


def test_what_is_in_flight_is_shown_and_gone_again(measured: Gateway) -> None:
    measured.log.pause_s = 0.2
    *_, scrape = measured.ask_all(
        [
            ("POST", "/v1/telemetry/device-0001", {"content": b"12345"}),
            ("POST", "/v1/telemetry/device-0002", {"content": b"12345"}),
            ("GET", "/metrics", {}),
        ]
    )
    assert "headrace_gateway_in_flight_payloads 2.0" in scrape.text
    assert "headrace_gateway_in_flight_bytes 10.0" in scrape.text
    assert scraped(measured)[("headrace_gateway_in_flight_payloads",)] == 0


def test_the_counts_of_all_workers_are_added_up(measured: Gateway, node: Node) -> None:
    other = Counts(node.numbers.row(1))
    for outcome in (Receipt("t", 0, 0), Receipt("t", 0, 1), Spooled("t")):
        other.accepted("telemetry", outcome)
    measured.post()
    found = scraped(measured)
    assert found[ACCEPTED, "telemetry", "kafka"] == 3
    assert found[ACCEPTED, "telemetry", "spool"] == 1


def test_a_counter_goes_on_where_the_last_process_in_its_row_ended() -> None:
    def shown(metrics: Metrics) -> float:
        return next(
            sample.value
            for family in metrics.collect()
            for sample in family.samples
            if "replacements" in sample.name
        )

    shared = SharedMemory.for_workers(1)
    metrics = Metrics(Node(0, 1, shared))
    metrics.add_counter(PRODUCER_REPLACEMENTS, lambda: 2)
    assert shown(metrics) == 2
    successor = Metrics(Node(0, 1, shared))
    successor.add_counter(PRODUCER_REPLACEMENTS, lambda: 1)
    assert shown(successor) == 3
    for memory_fd in shared:
        os.close(memory_fd)


def test_what_waits_on_disk_is_shown(measured: Gateway, spool: Spool) -> None:
    spool.of("t").append([Frame("t", Record(b"key", b"value", []), time.time_ns() // 1_000_000)])
    found = scraped(measured)
    assert found["headrace_gateway_spool_records",] == 1
    assert 0 < found["headrace_gateway_spool_bytes",] < 1000
    assert found["headrace_gateway_spool_bytes_max",] == 1000
    assert found["headrace_gateway_spool_oldest_age_seconds",] < 60
    spool.of("t").set_aside(Frame("t", Record(b"key", b"value", []), 0), "record_too_large")
    spool.of("t").note_stuck("topic_missing")
    found = scraped(measured)
    assert found["headrace_gateway_spool_set_aside_payloads",] == 1
    assert found["headrace_gateway_spool_stuck_seconds", "topic_missing", "t"] < 60


def test_the_operator_s_page_lists_what_is_exported(measured: Gateway) -> None:
    measured.post()
    text = measured.ask("GET", "/metrics").text
    names = set(re.findall(r"^# TYPE (\S+)", text, re.M))
    ours, _, _ = OPERATIONS.partition("\n## Ports")
    assert names == set(re.findall(r"^\| `(headrace_\w+)` \|", ours, re.M))


def test_the_metrics_can_be_switched_off(gateway: Gateway) -> None:
    assert gateway.ask("GET", "/metrics").status_code == 404
