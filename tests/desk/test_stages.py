"""What is told of a payload, by all that is known of it."""

from typing import Any

import pytest

from desk.whereabouts.log_search import time_of
from desk.whereabouts.stages import Facts, Payload, StoredEvent, told
from shared.events.envelope import Position
from shared.ids import derived_event_id, fresh_event_id
from shared.timestamps import now_ms

PLACE = Position("ingest.telemetry.v1", 3, 12)
PAYLOAD = Payload(PLACE, 1_700_000_000_000, "telemetry", "device-0001", 15)
AT = "2026-11-27T12:00:00+00:00"
EVENT = StoredEvent(
    "e-1", "reading", "device-0001", AT, AT, "event.reading.v1/0/7", str(PLACE), 0, {"area/a": 4}
)
LETTER = {
    "id": "letter-1",
    "status": "parked",
    "stage": "enrich",
    "cause": "not_json",
    "detail": "at byte 3",
    "parked_at": AT,
}
WAITS = {"reason": "missing_device", "detail": "device-0001", "entity_id": "device-0001"}


@pytest.mark.parametrize(
    ("facts", "now", "why", "stages"),
    [
        (Facts("e-1", None, searched="it was sought"), "unknown", "it was sought", []),
        (Facts("e-1", PAYLOAD), "accepted", "12 records are before it", ["accepted"]),
        (Facts("e-1", PAYLOAD, enrich_goes_on_at=12), "accepted", "0 records", ["accepted"]),
        (Facts("e-1", PAYLOAD, waiting=WAITS), "accepted", "12 records", ["accepted"]),
        (Facts("e-1", PAYLOAD, enrich_goes_on_at=13), "under_way", "no row", ["accepted"]),
        (
            Facts("e-1", PAYLOAD, waiting=WAITS, enrich_goes_on_at=13),
            "waits",
            "waiting show device-0001",
            ["accepted"],
        ),
        (Facts("e-1", PAYLOAD, letters=[LETTER]), "parked", "not_json", ["accepted", "parked"]),
        (
            Facts("e-1", PAYLOAD, letters=[{**LETTER, "status": "discarded"}]),
            "discarded",
            "which is discarded",
            ["accepted", "parked"],
        ),
        (Facts("e-1", PAYLOAD, [EVENT]), "stored", "a row", ["accepted", "enriched", "stored"]),
        (
            Facts("e-1", PAYLOAD, [EVENT, EVENT], [{**LETTER, "status": "done"}]),
            "stored",
            "2 rows",
            ["accepted", "parked", "enriched", "stored", "enriched", "stored"],
        ),
    ],
)
def test_it_is_told_where_it_is_now(facts: Facts, now: str, why: str, stages: list[str]) -> None:
    found = told(facts)
    assert (found["id"], found["now"]) == ("e-1", now)
    assert why in found["why"]
    assert [one["stage"] for one in found["stages"]] == stages


def test_a_stage_has_its_place_and_what_was_looked_up() -> None:
    stages: list[dict[str, Any]] = told(Facts("e-1", PAYLOAD, [EVENT]))["stages"]
    assert stages[0]["place"] == "ingest.telemetry.v1/3/12"
    assert (stages[1]["place"], stages[1]["saw"]) == ("event.reading.v1/0/7", {"area/a": 4})


def test_an_id_tells_its_time_if_a_gateway_made_it() -> None:
    before_ms = now_ms()
    its_ms = time_of(fresh_event_id())
    assert its_ms is not None
    assert before_ms <= its_ms <= now_ms()
    beyond = "ffffffff-ffff-7fff-bfff-ffffffffffff", "00000000-0000-7000-8000-000000000000"
    for other in (derived_event_id("a"), "", "x" * 36, "no id", fresh_event_id() + "0", *beyond):
        assert time_of(other) is None
