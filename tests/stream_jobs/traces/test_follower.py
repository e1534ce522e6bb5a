"""What a collector gets: of spans, and of what real topics have."""

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pydantic import HttpUrl

from clients.kafka.create_topics import ensure_topics
from clients.kafka.records import Record
from local_stack.run.stack import Stack
from shared.flow import FLOW
from shared.settings import JobSettings
from stream_jobs.traces import follower
from stream_jobs.traces.collector import Collector
from stream_jobs.traces.span import Parent, Span
from tests.kafka_log import eventually
from tests.otlp_collector import JsonCollector
from tests.stream_jobs.traces.test_way import (
    ARRIVED_MS,
    POST,
    TRACE,
    of_completion,
    of_event,
    of_state,
    reading,
)


@pytest.fixture
def collector() -> Iterator[JsonCollector]:
    running = JsonCollector()
    yield running
    running.close()


def span(number: int) -> Span:
    parent = Parent(TRACE, POST)
    links = (Parent(TRACE, f"{number:016x}"),)
    told = {"headrace.event.id": "a", "headrace.try": 3}
    return Span(parent, f"{number:016x}", "fold", "fold it", 5_000, 4_000, told, "no", links)


@pytest.mark.slow
def test_a_span_is_told_as_otlp_says(collector: JsonCollector) -> None:
    told = Collector(f"{collector.url}/")
    told.take([span(number) for number in range(1, 1_201)])
    assert len(collector.spans) == 1_200
    first = collector.spans[0]
    assert first["service"] == "headrace-fold"
    assert (first["traceId"], first["parentSpanId"]) == (TRACE, POST)
    assert first["startTimeUnixNano"] == "5000000000"
    assert first["endTimeUnixNano"] == "5000000000"  # never before it begins
    assert {"key": "headrace.try", "value": {"intValue": "3"}} in first["attributes"]
    assert {"key": "headrace.event.id", "value": {"stringValue": "a"}} in first["attributes"]
    assert first["status"] == {"code": 2, "message": "no"}
    assert first["links"] == [{"traceId": TRACE, "spanId": f"{1:016x}"}]


@pytest.mark.slow
def test_a_collector_that_takes_nothing_is_told_once(
    collector: JsonCollector, caplog: pytest.LogCaptureFixture
) -> None:
    told = Collector(collector.url)
    collector.status = 503
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            told.take([span(1)])
        collector.status = 200
        told.take([span(2)])
    assert [one.getMessage().rpartition("/v1/traces ")[2] for one in caplog.records] == [
        "does not take spans, they are dropped: it says 503",
        "takes spans again",
    ]
    assert len(collector.spans) == 1


@pytest.mark.stack
def test_what_comes_on_the_topics_is_told_and_what_was_there_before_is_not(
    empty_kafka: Stack, tmp_path: Path, collector: JsonCollector
) -> None:
    settings = JobSettings(
        kafka_bootstrap=empty_kafka.kafka_bootstrap,
        state_dir=tmp_path,
        otlp_endpoint=HttpUrl(collector.url),
    )
    ensure_topics(FLOW, settings)
    producer = Producer({"bootstrap.servers": settings.kafka_bootstrap})

    def write(*records: Record) -> None:
        for one in records:
            topic, headers = one.position.topic, [*one.headers]
            producer.produce(topic, one.value, one.key, partition=0, headers=headers)
        assert producer.flush(30) == 0

    write(of_event(reading(0, id="before"), ARRIVED_MS))
    stop, leads = threading.Event(), threading.Event()
    follower.start(settings, stop, leads.is_set)
    try:
        # its place on the topic is the one that its state has to name
        number = iter(range(1, 1_000))

        def is_heard() -> bool:
            write(of_event(reading(0, id=f"event-{next(number)}"), ARRIVED_MS))
            return bool(collector.spans)

        with pytest.raises(AssertionError):
            eventually(is_heard, within_s=4, every_s=0.2)  # another relay leads
        leads.set()
        eventually(is_heard, within_s=60, every_s=0.2)
        last = f"event-{next(number) - 1}"
        write(of_state(1, {"event.reading.v1/0": 1_000}, 0), of_completion(last, 0))
        services = {"headrace-enrich", "headrace-fold", "headrace-persist", "headrace-relay"}
        eventually(lambda: services == {one["service"] for one in collector.spans}, within_s=60)
    finally:
        stop.set()
    assert {one["traceId"] for one in collector.spans} == {TRACE}
    assert "before" not in str(collector.spans)
    parents = {one["spanId"]: one for one in collector.spans}
    stored = next(one for one in collector.spans if one["service"] == "headrace-persist")
    assert parents[stored["parentSpanId"]]["service"] == "headrace-enrich"
