import time

import orjson
import pytest
from confluent_kafka import Producer

from clients.kafka.create_topics import ensure_topics
from shared.errors import StaleMasterDataError
from shared.flow import load_flow
from shared.model import Fields
from shared.settings import JobSettings
from shared.topic_names import RELAY_HEARTBEAT_KEY, master_topic
from stream_jobs.enrich.master_data_view import MasterView
from tests.kafka_log import eventually

pytestmark = pytest.mark.stack

TABLES = load_flow().master_tables


def _publish(settings: JobSettings, key: str, row: Fields | None, table: str = "device") -> None:
    producer = Producer({"bootstrap.servers": settings.kafka_bootstrap})
    value = None if row is None else orjson.dumps(row)
    producer.produce(master_topic(table), value, key)
    assert producer.flush(60) == 0


def _confirm(settings: JobSettings, age_s: float) -> None:
    as_of_ms = int((time.time() - age_s) * 1000)
    for table in TABLES:
        _publish(settings, RELAY_HEARTBEAT_KEY, {"as_of_ms": as_of_ms}, table)


def test_changes_are_seen_and_old_knowledge_is_refused(job_settings: JobSettings) -> None:
    ensure_topics(load_flow(), job_settings)
    _publish(job_settings, "device-a", {"area": "one"})
    _publish(job_settings, "device-b", {"area": "one"})
    _confirm(job_settings, age_s=0)
    view = MasterView(job_settings.kafka, TABLES, age_max_s=60)
    view.refresh()
    assert view.find("device", "device-a") == {"area": "one"}
    assert view.find("device", RELAY_HEARTBEAT_KEY) is None

    _publish(job_settings, "device-a", {"area": "two"})
    _publish(job_settings, "device-b", None)

    def has_changed() -> bool:
        view.refresh()
        found = view.find("device", "device-a"), view.find("device", "device-b")
        return found == ({"area": "two"}, None)

    eventually(has_changed, within_s=120)

    _confirm(job_settings, age_s=120)

    def is_refused() -> bool:
        try:
            view.refresh()
        except StaleMasterDataError as stale:
            return "12" in str(stale) and "s ago" in str(stale)
        return False

    eventually(is_refused, within_s=120)
    with pytest.raises(StaleMasterDataError, match="last confirmed"):
        MasterView(job_settings.kafka, TABLES, age_max_s=60).refresh()


def test_a_row_counts_from_its_time_on(job_settings: JobSettings) -> None:
    ensure_topics(load_flow(), job_settings)
    for from_ms, area in ((200, "two"), (100, "one"), (300, "three")):
        _publish(job_settings, f"device-t@{from_ms}", {"area": area})
    _publish(job_settings, "device-t@300", None)
    view = MasterView(job_settings.kafka, TABLES, 60, frozenset({"device"}))

    def area_at(time_ms: int) -> str | None:
        row = view.find_at("device", "device-t", time_ms)
        return None if row is None else row["area"]

    assert [area_at(ms) for ms in (99, 100, 199, 200, 1000)] == [None, "one", "one", "two", "two"]
    assert view.find_at("device", "device-u", 1000) is None
    with pytest.raises(LookupError, match="has no valid_from"):
        view.find_at("device_model", "thermo-c", 1000)
