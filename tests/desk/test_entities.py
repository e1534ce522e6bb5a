"""All of an entity, for programs and people, on a real broker and PostgreSQL."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from psycopg.types.json import Jsonb

from gateway.state_view.reader import Found, Progress, StateView
from shared.folding import snapshot
from shared.folding.snapshot import Snapshot
from shared.ids import fresh_event_id
from stream_jobs.waiting.codec import gate_value
from stream_jobs.waiting.line import Told
from tests.desk import dom
from tests.desk.desk_room import Room

pytestmark = pytest.mark.stack


def store(room: Room, entity_id: str, number: int, **data: Any) -> str:
    event_id = fresh_event_id()
    room.admin.execute(
        """INSERT INTO headrace.event
               (event_id, type, entity_id, event_time, arrived_at, origin, position, data)
           VALUES (%s, 'reading', %s, %s, now() + %s * interval '1 s', %s, %s, %s)""",
        (
            event_id,
            entity_id,
            f"2026-11-28T12:00:{number:02}Z",
            number,
            f"ingest.telemetry.v1/0/{number}",
            f"event.reading.v1/0/{number}",
            Jsonb(data),
        ),
    )
    return event_id


def gate(room: Room, key: str, reason: str | None) -> None:
    origin = "ingest.telemetry.v1/0/0"
    told = reason and Told(2, 1_700_000_000_000, origin, reason, "why it waits", {"0": 5})
    room.write("gate.enrich.v1", key.encode(), gate_value(told) if told else None, [])


@pytest.fixture
def entity_id(room: Room) -> Iterator[str]:
    """One of a tenant, with a letter, three events, and what waits. Another one has some, too."""
    entity_id = f"acme/e{time.time_ns()}"
    for number, value in enumerate((20.5, 23.0, 21.5)):
        store(room, entity_id, number, value=value, unit="C")
    store(room, f"{entity_id}x", 1, value=99.0)
    room.park(1, b"{", key=entity_id.encode())
    room.park(2, b"{", key=f"{entity_id}x".encode())
    room.index()
    gate(room, entity_id, "missing_device")
    gate(room, f"{entity_id}x", "missing_device")
    yield entity_id
    gate(room, entity_id, None)
    gate(room, f"{entity_id}x", None)


def test_a_program_learns_all_of_one_entity_and_nothing_of_others(
    room: Room, entity_id: str
) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        device = entity_id.removeprefix("acme/")
        keys = []
        for tenant in ("acme", "beta", ""):
            asked = {"device": device, "tenant": tenant}
            keys.append((await http.post("/api/credentials", json=asked)).json()["key_id"])
        found = (await http.get(f"/api/entities/{entity_id}")).json()
        assert found["id"] == entity_id
        assert [one["data"]["value"] for one in found["events"]] == [21.5, 23.0, 20.5]
        assert [one["reason"] for one in found["waiting"]] == ["missing_device"]
        assert [one["cause"] for one in found["letters"]] == ["not_json"]
        assert [one["key_id"] for one in found["credentials"]] == keys[:1]
        assert (found["states"], found["unknown"]) == ([], {})
        nobody = await http.get("/api/entities/acme/nobody-knows-it")
        assert (nobody.status_code, nobody.json()["code"]) == (404, "no_entity")
        for key in keys:
            await http.delete(f"/api/credentials/{key}")

    room.ask(steps)


def test_its_states_are_those_of_the_view_or_else_the_stored_ones(
    room: Room, entity_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.admin.execute(
        """INSERT INTO headrace.entity_state (entity, id, version, event_time, state, position)
           VALUES ('device', %s, 3, '2026-11-28T12:00:00Z', '{"value": 20.5}', 's/0/1')
        """,
        (entity_id,),
    )

    async def steps(http: httpx.AsyncClient) -> None:
        (stored,) = (await http.get(f"/api/entities/{entity_id}")).json()["states"]
        assert (stored["entity"], stored["version"]) == ("device", 3)
        assert stored["state"] == {"value": 20.5}
        value = snapshot.encode(Snapshot({"value": 23.0}, 4, 1_700_000_000_000), "f")

        def find(_: StateView, topic: str, key: bytes) -> tuple[Progress, Found | None]:
            is_it = (topic, key) == ("state.device.v1", entity_id.encode())
            return Progress(True, 1), Found(value, 1, 0, 1) if is_it else None

        monkeypatch.setattr(StateView, "find", find)
        (viewed,) = (await http.get(f"/api/entities/{entity_id}")).json()["states"]
        assert (viewed["version"], viewed["state"]) == (4, {"value": 23.0})
        assert viewed["event_time"] == "2023-11-14T22:13:20.000Z"

    room.ask(steps)
    room.admin.execute("DELETE FROM headrace.entity_state WHERE id = %s", (entity_id,))


def test_without_kafka_it_says_what_is_not_known_and_shows_the_rest(
    room: Room, entity_id: str, tmp_path: Path
) -> None:
    its = {"kafka_bootstrap": "127.0.0.1:9", "state_dir": tmp_path}
    away = Room.__new__(Room)
    away.__dict__.update(room.__dict__)
    away.settings = room.settings.model_copy(update=its)

    async def steps(http: httpx.AsyncClient) -> None:
        found = (await http.get(f"/api/entities/{entity_id}", timeout=120)).json()
        assert len(found["events"]) == 3
        assert found["unknown"].keys() == {"waiting", "credentials"}
        page = (await http.get(f"/entities/{entity_id}", timeout=120)).text
        assert "is not known now" in page

    away.ask(steps)


def test_its_page_has_links_to_all_of_it_and_the_line_of_a_number(
    room: Room, entity_id: str
) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        page = await http.get(f"/entities/{entity_id}")
        tree = dom.read(page.content)
        (line,) = tree.all("polyline")
        assert len((line.attributes["points"] or "").split()) == 3
        links = [one.attributes["href"] or "" for one in tree.all("a")]
        events = [one for one in links if one.startswith("/events/")]
        assert len(events) == 3
        assert (await http.get(events[0])).status_code == 200
        (letter,) = (one for one in links if one.startswith("/letters/"))
        assert f"/entities/{entity_id}" in (await http.get(letter)).text
        asked = await http.get("/entities", params={"id": entity_id})
        assert (asked.status_code, asked.headers["location"]) == (303, f"/entities/{entity_id}")
        assert (await http.get("/entities/nobody-knows-it")).status_code == 404

    room.ask(steps)


def test_what_waits_is_tried_or_given_up_from_its_page(room: Room, entity_id: str) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        page = await http.get("/waiting", params={"reason": "missing_device"})
        tree = dom.read(page.content)
        ids = [one.attributes["value"] for one in tree.all("input")
               if one.attributes.get("name") == "ids"]  # fmt: skip
        assert entity_id in ids
        (form,) = (one for one in tree.all("form") if one.attributes["method"] == "post"
                   and one.attributes["action"] == "/waiting")  # fmt: skip
        sent = {**form.fields(), "ids": entity_id, "order": "try"}
        done = await http.post("/waiting", data=sent)
        assert (done.status_code, done.headers["location"]) == (303, "/waiting")
        assert (await http.post("/waiting", data={**sent, "order": "eat"})).status_code == 400
        nothing = await http.post("/waiting", data={**sent, "ids": ""})
        assert nothing.status_code in (400, 404)
        assert (await http.post("/waiting", data={**sent, "csrf": "x"})).status_code == 403
        other = await http.get("/waiting", params={"reason": "nothing-like-it"})
        assert entity_id not in other.text

    room.ask(steps)
    wakes = [orjson.loads(value) for topic, value, _ in room.sent() if topic == "wake.enrich.v1"]
    assert wakes == [[f"try:{entity_id}"]]
    (noted,) = room.book.audit(10)
    assert (noted["what"], noted["selection"]) == ("try what waits", {"entity_id": entity_id})
