from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from clients.kafka.records import Payload
from clients.postgres import master_data, store
from shared.errors import StoreAwayError
from shared.events.envelope import Position
from shared.flow import FLOW
from shared.flow_table import Flow
from shared.model import Fields, FreshField
from stream_jobs.enrich.on_demand_fields import FreshFields


class Snapshot:
    def find(self, table: str, key: str) -> Fields | None:
        known = {"device-0001", "device-0002"}
        return {"area": "old", "model": "thermo-c"} if table == "device" and key in known else None


def _payload(key: bytes | None) -> Payload:
    return Payload(Position("ingest.telemetry.v1", 0, 0), key, b"{}", (), 0)


def _flow(*fresh: FreshField) -> Flow:
    return replace(FLOW, endpoints=(replace(FLOW.endpoints[0], fresh=fresh),))


def test_without_a_wish_for_fresh_fields_no_store_is_asked() -> None:
    master = Snapshot()
    fields = FreshFields(_flow(), "postgresql://nobody@127.0.0.1:1/none")
    assert fields.over(master, [_payload(b"device-0001")]) is master


def test_a_store_that_is_away_makes_the_batch_wait() -> None:
    fields = FreshFields(
        _flow(FreshField("device", "id", "area")), "postgresql://nobody@127.0.0.1:1/none"
    )
    with pytest.raises(StoreAwayError):
        fields.over(Snapshot(), [_payload(b"device-0001")])


@pytest.fixture
def asking_for_area(postgres_url: str) -> Iterator[FreshFields]:
    with closing(FreshFields(_flow(FreshField("device", "id", "area")), postgres_url)) as fields:
        yield fields


@pytest.mark.stack
def test_a_fresh_field_is_what_the_store_has_now(
    asking_for_area: FreshFields, connection: store.Connection
) -> None:
    master_data.seed(connection)
    fields = asking_for_area
    payloads = [_payload(b"device-0001"), _payload(b"\xff\x00"), _payload(None)]
    for area in ("area-first", "area-second"):
        master_data.set_device(connection, "device-0001", area=area)
        known = fields.over(Snapshot(), payloads)
        assert known.find("device", "device-0001") == {"area": area, "model": "thermo-c"}
    assert known.find("device", "device-0002") == {"area": "old", "model": "thermo-c"}
    assert known.find("device", "device-0003") is None


@pytest.mark.stack
def test_a_connection_that_broke_is_made_anew(
    asking_for_area: FreshFields, postgres_url: str, connection: store.Connection
) -> None:
    master_data.seed(connection)
    fields = asking_for_area
    fields.over(Snapshot(), [_payload(b"device-0001")])
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'headrace-enrich' AND datname = current_database()"
        )
    with pytest.raises(StoreAwayError):
        fields.over(Snapshot(), [_payload(b"device-0001")])
    found = fields.over(Snapshot(), [_payload(b"device-0001")]).find("device", "device-0001")
    assert found is not None
    assert found["area"] == "area-01"
