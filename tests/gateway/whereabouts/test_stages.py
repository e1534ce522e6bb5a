"""What is told of a payload, by all that is known of it."""

from typing import Any

import pytest

from gateway.whereabouts.facts import (
    Delivery,
    Ended,
    Event,
    Facts,
    Folded,
    Payload,
    Row,
    Spooled,
    Waits,
)
from gateway.whereabouts.log_search import time_of
from gateway.whereabouts.openapi import NOW, STAGES, WHEREABOUTS
from gateway.whereabouts.stages import told
from shared.events.envelope import Position
from shared.ids import derived_event_id, fresh_event_id
from shared.timestamps import now_ms

PLACE = Position("ingest.telemetry.v1", 3, 12)
AT_MS, AT = 1_700_000_000_000, "2026-11-27T12:00:00+00:00"
PAYLOAD = Payload(PLACE, AT_MS, "telemetry", "device-0001", 15)
ROW = Row(7, AT, True, "completion.reading.v1", AT_MS, "completion.reading.v1/0/3")
MADE = Event("e-1", "reading", "device-0001", "event.reading.v1/0/7", AT, AT_MS, 0, {"area/a": 4})
EVENT = MADE._replace(row=ROW)
OTHER = EVENT._replace(id="e-1#1")
LETTER = {
    "id": "letter-1",
    "status": "parked",
    "stage": "enrich",
    "cause": "not_json",
    "detail": "at byte 3",
    "parked_at": AT,
    "payload": None,
}
OF_PERSIST = {**LETTER, "stage": "persist", "payload": str(PLACE)}
OF_OTHER = {**OF_PERSIST, "payload": "ingest.telemetry.v1/3/99"}
OF_HOOK = {**LETTER, "stage": "forward", "cause": "not_delivered"}
WAITS = Waits("enrich", "missing_device", "device-0001", "device-0001", {"payloads": 2}, {})
ENDED = Ended("dropped", "enrich", "no_news", "as before", AT_MS, "dropped.enrich.v1/0/1")
FOLDED = Folded("e-1", "device", "device-0001", 4, AT, is_exact=True)
DELIVERY = Delivery("e-1", AT_MS, {"hook": "office", "try": 1, "status": 204, "verdict": "done"})
WHOLE = Facts("e-1", PAYLOAD, [EVENT], 1, folded=[FOLDED], deliveries=[DELIVERY])
DONE = "enriched", "stored", "completed"


@pytest.mark.parametrize(
    ("facts", "now", "why", "stages"),
    [
        (Facts("e-1", None, searched="it was sought"), "unknown", "it was sought", []),
        (
            Facts("e-1", None, spooled=Spooled("ingest.telemetry.v1", "device-0001", 15, AT_MS)),
            "spooled",
            "on this gateway's disk",
            ["spooled"],
        ),
        (Facts("e-1", PAYLOAD), "accepted", "12 records are before it", ["accepted"]),
        (Facts("e-1", PAYLOAD, enrich_goes_on_at=12), "accepted", "0 records", ["accepted"]),
        (
            Facts("e-1", PAYLOAD._replace(spooled_ms=AT_MS)),
            "accepted",
            "enrich",
            ["spooled", "accepted"],
        ),
        (
            Facts("e-1", PAYLOAD, enrich_goes_on_at=13, searched="30 s were looked through"),
            "under_way",
            "30 s were looked through",
            ["accepted"],
        ),
        (
            Facts("e-1", PAYLOAD, waits=WAITS, enrich_goes_on_at=13),
            "waits",
            "it waits for enrich: missing_device, device-0001; see ./headrace waiting show device-",
            ["accepted", "waits"],
        ),
        (
            Facts("e-1", PAYLOAD, waits=WAITS._replace(is_first=False), enrich_goes_on_at=13),
            "waits",
            "it waits behind earlier ones of device-0001 for enrich",
            ["accepted", "waits"],
        ),
        (
            Facts("e-1", PAYLOAD, ended=ENDED, enrich_goes_on_at=13),
            "dropped",
            "enrich: no_news: as before",
            ["accepted", "dropped"],
        ),
        (Facts("e-1", PAYLOAD, letters=[LETTER]), "parked", "not_json", ["accepted", "parked"]),
        (
            Facts("e-1", PAYLOAD, letters=[{**LETTER, "status": "discarded"}]),
            "discarded",
            "which is discarded",
            ["accepted", "parked"],
        ),
        (
            Facts("e-1", PAYLOAD, [MADE], 1),
            "enriched",
            "its event is no row of headrace.event",
            ["accepted", "enriched"],
        ),
        (
            Facts("e-1", PAYLOAD, [MADE], 1, waits=WAITS._replace(by="persist")),
            "waits",
            "its event is no row: it waits for persist",
            ["accepted", "waits", "enriched"],
        ),
        (
            Facts("e-1", PAYLOAD, [EVENT], 3),
            "enriched",
            "1 of its 3 events are rows",
            ["accepted", *DONE],
        ),
        (
            Facts("e-1", PAYLOAD, [EVENT, OTHER._replace(row=None)], 2),
            "enriched",
            "1 of its 2 events are rows",
            ["accepted", *DONE, "enriched"],
        ),
        (Facts("e-1", PAYLOAD, [EVENT], 1), "stored", "a row", ["accepted", *DONE]),
        (
            Facts("e-1", PAYLOAD, [EVENT, OTHER], 2, [{**LETTER, "status": "done"}]),
            "stored",
            "its 2 events are rows",
            ["accepted", "parked", *DONE, *DONE],
        ),
        (
            Facts("e-1", PAYLOAD, [EVENT], 1, [{**LETTER, "stage": "persist"}]),
            "stored",
            "a row",
            ["accepted", "parked", *DONE],
        ),
        (
            # other bytes under its key were parked
            Facts("e-1", PAYLOAD, [EVENT], 1, [OF_OTHER]),
            "stored",
            "a row",
            ["accepted", "parked", *DONE],
        ),
        (
            # it is what was parked, and the row is of the one before
            Facts(
                "e-1", PAYLOAD, [EVENT._replace(repeats="ingest.telemetry.v1/3/9")], 1, [OF_PERSIST]
            ),
            "parked",
            "letters show letter-1",
            ["accepted", "parked", *DONE],
        ),
        (
            Facts("e-1", PAYLOAD, [EVENT, OTHER._replace(row=None)], 2, [OF_OTHER]),
            "enriched",
            "1 of its 2 events are rows",
            ["accepted", "parked", *DONE, "enriched"],
        ),
        (
            # one hook's letter stops no event
            Facts("e-1", PAYLOAD, [MADE], 1, [OF_HOOK]),
            "enriched",
            "its event is no row of headrace.event",
            ["accepted", "parked", "enriched"],
        ),
        (
            Facts("e-1", PAYLOAD, [EVENT], 1, [{**LETTER, "stage": "fold"}]),
            "parked",
            "letters show letter-1",
            ["accepted", "parked", *DONE],
        ),
        (
            Facts("e-1", PAYLOAD, [EVENT._replace(row=ROW._replace(is_completed=False))], 1),
            "stored",
            "relay has still to send its completion",
            ["accepted", "enriched", "stored"],
        ),
        (
            WHOLE,
            "stored",
            "a row",
            ["accepted", "enriched", "folded", "stored", "completed", "forwarded"],
        ),
    ],
)
def test_it_is_told_where_it_is_now(facts: Facts, now: str, why: str, stages: list[str]) -> None:
    found = told(facts)
    assert (found["id"], found["now"]) == ("e-1", now)
    assert why in found["why"]
    assert [one["stage"] for one in found["stages"]] == stages
    assert facts.is_known == (now != "unknown")
    assert {*stages} <= {*STAGES}
    assert now in (*NOW, "unknown")
    described = WHEREABOUTS["properties"]["stages"]["items"]["properties"]
    assert {name for one in found["stages"] for name in one} <= described.keys()


def test_a_stage_has_its_place_and_time_and_what_was_looked_up() -> None:
    stages: dict[str, dict[str, Any]] = {one["stage"]: one for one in told(WHOLE)["stages"]}
    places = {name: stages[name]["place"] for name in ("accepted", "enriched", "completed")}
    assert places == {
        "accepted": "ingest.telemetry.v1/3/12",
        "enriched": "event.reading.v1/0/7",
        "completed": "completion.reading.v1/0/3",
    }
    assert all(one["at"] for one in stages.values())
    assert stages["enriched"]["saw"] == {"area/a": 4}
    assert (stages["stored"]["table"], stages["stored"]["row_key"]) == ("headrace.event", 7)
    assert (stages["folded"]["entity"], stages["folded"]["version"]) == ("device", 4)
    assert "or_earlier" not in stages["folded"]
    assert (stages["forwarded"]["hook"], stages["forwarded"]["status"]) == ("office", 204)
    late = WHOLE._replace(folded=[FOLDED._replace(at=None, is_exact=False)])
    assert told(late)["stages"][2]["or_earlier"] is True


def test_an_id_tells_its_time_if_a_gateway_made_it() -> None:
    before_ms = now_ms()
    its_ms = time_of(fresh_event_id())
    assert its_ms is not None
    assert before_ms <= its_ms <= now_ms()
    beyond = "ffffffff-ffff-7fff-bfff-ffffffffffff", "00000000-0000-7000-8000-000000000000"
    for other in (derived_event_id("a"), "", "x" * 36, "no id", fresh_event_id() + "0", *beyond):
        assert time_of(other) is None
