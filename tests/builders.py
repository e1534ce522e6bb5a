"""One builder a contract, every field defaulted."""

from collections.abc import Callable
from typing import Any

from clients.kafka.records import Outgoing, Payload
from shared.events.envelope import EventRecord, Position
from shared.flow_table import Flow
from shared.model import Fields, MasterRows
from stream_jobs.enrich.enrich_payload import enricher


def event_record(offset: int = 0, **changes: Any) -> EventRecord:
    """The reading at this offset of the event log, by default the same offset of the ingest log."""
    value = changes.pop("value", 21.5)
    origin = changes.pop("origin", offset)
    record = EventRecord(
        position=Position("event.reading.v1", 0, offset),
        entity_id="device-0001",
        id=f"event-{offset}",
        type="reading",
        time_ms=1_700_000_000_000 + offset,
        arrived_ms=1_700_000_000_000 + offset,
        origin=Position("ingest.telemetry.v1", 0, origin),
        attempt=0,
        data={"value": value, "area": "area-01"},
    )
    return record._replace(**changes)


class Master:
    """Master data that knows one device, with and without a tenant, and its model."""

    def find(self, table: str, key: str) -> Fields | None:
        rows: dict[tuple[str, str], Fields] = {
            ("device", "device-0001"): {"area": "area-01", "model": "thermo-c"},
            ("device", "acme/device-0001"): {"area": "area-01", "model": "thermo-c"},
            ("device_model", "thermo-c"): {"value_field": "value", "unit": "celsius"},
        }
        return rows.get((table, key))


def enriches(flow: Flow) -> Callable[[Payload, MasterRows], Outgoing]:
    """enrich, for payloads that each become one record."""
    enrich = enricher(flow)

    def one(payload: Payload, master: MasterRows) -> Outgoing:
        (made,) = enrich(payload, master)
        return made

    return one
