"""The ledger at the desk, as its keeper says it on Kafka."""

import httpx
import pytest

from shared.published.ledger import ENDS, TERMS
from shared.timestamps import now_ms, to_rfc3339
from tests.desk.desk_room import Room
from tests.desk.said import says

pytestmark = pytest.mark.stack


def test_it_is_told_as_the_keeper_says_it(room: Room) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        as_of_ms = now_ms()
        told = {
            "as_of_ms": as_of_ms,
            "endpoints": {"telemetry": {**dict.fromkeys(TERMS, 0), "received": 5, "stored": 4}},
            "derived": dict.fromkeys(ENDS, 0),
            "missing": ["ingest.telemetry.v1/0/7"],
            "recounting": 0,
        }
        says(room, "ledger", ledger=told)
        found = (await http.get("/api/ledger")).json()
        assert (found["received"], found["stored"]) == (5, 4)
        assert (found["as_of"], found["old"]) == (to_rfc3339(as_of_ms), False)
        says(room, "ledger", ledger={**told, "as_of_ms": as_of_ms - 60_000}, detail="away")
        assert (await http.get("/api/ledger")).json()["old"]
        assert found["endpoints"][0]["endpoint"] == "telemetry"
        assert "ingest.telemetry.v1/0/7" in (await http.get("/ledger")).text

    room.ask(steps)


def test_who_says_nothing_that_can_be_read_is_not_believed(room: Room) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        says(room, "ledger", ledger={"as_of_ms": "soon"})
        unknown = await http.get("/api/ledger")
        assert (unknown.status_code, unknown.json()["code"]) == (503, "ledger_unknown")
        page = await http.get("/ledger")
        assert page.status_code == 200
        assert "Nobody knows" in page.text

    room.ask(steps)
