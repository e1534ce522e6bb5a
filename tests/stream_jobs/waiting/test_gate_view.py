"""What enrich and retry see of each other, on a real broker."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from clients.kafka.create_topics import ensure_topics
from shared.events.envelope import Position
from shared.flow import FLOW
from shared.settings import JobSettings
from stream_jobs.waiting.codec import gate_value
from stream_jobs.waiting.gate_view import GateView, LaneView, RipenessView, first_needed
from stream_jobs.waiting.line import Told
from tests.shared.test_actions import FLOW as CALLS

pytestmark = pytest.mark.stack

LANE, GATE, INGEST = "retry.enrich.v1", "gate.enrich.v1", "ingest.telemetry.v1"


def _write(settings: JobSettings, topic: str, key: str, value: bytes | None) -> Position:
    landed = []
    producer = Producer({**settings.kafka.for_librdkafka(), "acks": "all"})
    producer.produce(topic, value, key, on_delivery=lambda _error, told: landed.append(told))
    producer.flush(60)
    return Position(topic, landed[0].partition(), landed[0].offset())


def _commit(settings: JobSettings, job: str, place: Position) -> None:
    """As a job does that has done with this record."""
    config = {**settings.kafka.for_librdkafka(), "group.id": f"headrace-{job}"}
    consumer = Consumer({**config, "enable.auto.commit": False})
    behind = TopicPartition(place.topic, place.partition, place.offset + 1)
    consumer.commit(offsets=[behind], asynchronous=False)
    consumer.close()


def test_what_enrich_sends_is_held_until_retry_has_passed_it_and_closed(
    job_settings: JobSettings, tmp_path: Path
) -> None:
    settings = job_settings.model_copy(update={"state_dir": tmp_path})
    ensure_topics(FLOW, settings)
    view = GateView(settings.kafka)
    assert not view.refresh().hold("device-7")
    sent = _write(settings, LANE, "device-7", b"{}")
    assert view.refresh().hold("device-7")
    assert not view.refresh().hold("device-8")
    _write(settings, GATE, "device-7", b"{}")
    _commit(settings, "retry", sent)
    assert view.refresh().hold("device-7")
    _write(settings, GATE, "device-7", None)
    assert not view.refresh().hold("device-7")
    # of a new worker, which knows only what is written
    assert not GateView(settings.kafka).refresh().hold("device-7")
    sent = _write(settings, LANE, "device-7", b"{}")
    assert GateView(settings.kafka).refresh().hold("device-7")
    _commit(settings, "retry", sent)  # the tests after this one have the same lane


def test_what_waits_is_told_by_the_gates_and_so_is_where_it_begins_in_the_lane(
    job_settings: JobSettings,
) -> None:
    ensure_topics(FLOW, job_settings)
    view = LaneView(job_settings, FLOW)
    before = view.numbers({})["lanes"][LANE]
    assert not view.somebody_waits()
    assert before["payloads"] == before["entities"] == before["oldest_s"] == 0
    told = Told(3, 1_000, "ingest.telemetry.v1/0/5", "missing_device", "device-7", {"0": 17})
    _write(job_settings, GATE, "device-7", gate_value(told))
    _write(job_settings, GATE, "device-8", gate_value(told._replace(needs={"0": 5, "1": 6})))
    assert view.somebody_waits()
    after = view.numbers({"woken": 4})["lanes"][LANE]
    assert (after["payloads"], after["entities"], after["woken"]) == (6, 2, 4)
    assert after["oldest_s"] > 1_000_000_000
    assert first_needed(job_settings.kafka) == {0: 5, 1: 6}
    _write(job_settings, GATE, "device-8", None)
    assert first_needed(job_settings.kafka) == {0: 17}
    _write(job_settings, GATE, "device-7", None)
    assert view.numbers({})["lanes"][LANE]["payloads"] == 0
    assert not view.somebody_waits()
    sent = _write(job_settings, LANE, "device-7", b"{}")
    assert view.somebody_waits()
    _commit(job_settings, "retry", sent)
    assert not view.somebody_waits()
    assert first_needed(job_settings.kafka) == {}


def test_a_deadline_waits_on_purpose_until_its_time_is_up(job_settings: JobSettings) -> None:
    ensure_topics(FLOW, job_settings)
    view = LaneView(job_settings, CALLS)
    told = Told(1, 1_000, "ingest.call_deadline.v1/0/5", "not_yet", "", {}, False, 2_000, 1)
    _write(job_settings, GATE, "call-1", gate_value(told))
    lane = view.numbers({})["lanes"][LANE]
    assert (lane["payloads"], lane["oldest_s"], lane["deadlines"]) == (0, 0, 1)
    _write(job_settings, GATE, "call-1", gate_value(told._replace(tries=2)))
    lane = view.numbers({})["lanes"][LANE]
    assert (lane["payloads"], lane["deadlines"]) == (1, 0)
    _write(job_settings, GATE, "call-1", None)


def test_a_payload_is_ripe_when_enrich_is_behind_it_and_retry_has_read_what_came_of_it(
    job_settings: JobSettings,
) -> None:
    ensure_topics(FLOW, job_settings)
    view = RipenessView(job_settings.kafka, FLOW)
    place = _write(job_settings, INGEST, "device-9", b"{}")
    in_lane = _write(job_settings, LANE, "device-9", b"{}")
    view.refresh()
    assert not view.is_ripe(place)
    _commit(job_settings, "enrich", place)
    view.refresh()
    assert not view.is_ripe(place)
    _commit(job_settings, "retry", in_lane)
    view.refresh()
    assert view.is_ripe(place)
    assert not view.is_ripe(place._replace(offset=place.offset + 1))


def test_the_lane_tells_whose_caps_bite(job_settings: JobSettings) -> None:
    ensure_topics(FLOW, job_settings)
    caps = {"waiting_entities_max": 2, "waiting_per_tenant_max": 12}
    view = LaneView(job_settings.model_copy(update=caps), FLOW)
    told = Told(3, 1_000, "ingest.telemetry.v1/0/5", "missing_device", "device-7", {"0": 17})
    _write(job_settings, GATE, "one/device-7", gate_value(told))
    assert view.numbers({})["lanes"][LANE]["full"] == []
    _write(job_settings, GATE, "one/device-8", gate_value(told._replace(full=True)))
    _write(job_settings, GATE, "two/device-8", gate_value(told._replace(payloads=12)))
    lane = view.numbers({})["lanes"][LANE]
    assert lane["at_cap"] == 3
    assert [who.split(" ")[:2] for who in lane["full"]] == [
        ["tenant", "'two':"],
        ["tenant", "'one':"],
        ["one/device-8:", "as"],
    ]
    for key in ("one/device-7", "one/device-8", "two/device-8"):
        _write(job_settings, GATE, key, None)
    assert view.numbers({})["lanes"][LANE]["full"] == []
