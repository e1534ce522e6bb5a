"""What waits, as its gates tell, on a real broker and PostgreSQL: for programs and terminals."""

import asyncio
import time
from collections.abc import Iterator

import httpx
import orjson
import pytest
from typer.testing import CliRunner

from clients.postgres.grants import DESK
from desk.waiting.service import NobodyWaitsError, Waiting
from local_stack import cli
from local_stack.servers.postgres_address import as_role
from shared.errors import StoreAwayError
from stream_jobs.waiting.codec import gate_value
from stream_jobs.waiting.line import Told
from tests.desk.desk_room import Room

pytestmark = pytest.mark.stack
SINCE_MS = 1_700_000_000_000


def _told(reason: str, **changes: object) -> Told:
    detail = {"missing_device": "device-7", "not_yet": "the service is away"}[reason]
    told = Told(3, SINCE_MS, "ingest.telemetry.v1/0/0", reason, detail, {"0": 5})
    return told._replace(**changes)  # type: ignore[arg-type]


@pytest.fixture
def names(room: Room) -> Iterator[list[str]]:
    """Four entities, of which one waits no more. Gates of other tests are of other names."""
    mark = f"w{time.time_ns()}"
    names = [f"{mark}-{number}" for number in range(4)]
    _gate(room, names[0], _told("not_yet", due_ms=SINCE_MS + 9_000, tries=2))
    _gate(room, names[1], _told("missing_device"))
    _gate(room, names[2], _told("not_yet", tries=1))
    _gate(room, names[3], _told("not_yet"))
    _gate(room, names[3], None)
    yield names
    for name in names:
        _gate(room, name, None)


def _gate(room: Room, name: str, told: Told | None) -> None:
    value = None if told is None else gate_value(told)
    room.write("gate.enrich.v1", name.encode(), value, [])


def _wakes(room: Room) -> list[list[str]]:
    return [orjson.loads(value) for topic, value, _ in room.sent() if topic == "wake.enrich.v1"]


def test_entities_are_listed_with_why_they_wait_and_until_when(
    room: Room, names: list[str]
) -> None:
    found = Waiting(room.desk).page(1000, reason="not_yet").entities
    rows = {row["entity_id"]: row for row in found}
    assert rows.keys() & {*names} == {names[0], names[2]}
    assert rows[names[0]] == {
        "entity_id": names[0],
        "alone": None,
        "stage": "enrich",
        "payloads": 3,
        "since": "2023-11-14T22:13:20.000Z",
        "reason": "not_yet",
        "detail": "the service is away",
        "tries": 2,
        "next_try": "2023-11-14T22:13:29.000Z",
    }


def test_they_are_paged(room: Room, names: list[str]) -> None:
    waiting = Waiting(room.desk)
    first = waiting.page(1)
    seen, page = [*first.entities], first
    while page.next is not None:
        page = waiting.page(1, page.next)
        seen += page.entities
    ids = [row["entity_id"] for row in seen]
    assert ids == sorted(ids)
    assert {*ids} >= {*names[:3]}


def test_an_order_goes_to_retry_as_a_wake_with_its_audit(room: Room, names: list[str]) -> None:
    assert Waiting(room.desk).order("try", [names[0], names[1]], None, "ann") == 2
    assert _wakes(room) == [[f"try:{names[0]}", f"try:{names[1]}"]]
    (noted,) = room.book.audit(10)
    assert (noted["by"], noted["what"], noted["letters"]) == ("ann", "try what waits", 2)


def test_what_waits_without_order_is_named_by_its_entity_or_by_itself(
    room: Room, names: list[str]
) -> None:
    late, later = f"{names[3]}\nevent/1", f"{names[3]}\nevent 2"
    for key in (late, later):
        _gate(room, key, _told("not_yet", tries=1))
    waiting = Waiting(room.desk)
    after = waiting.page(1, names[3])
    assert (after.entities[0]["entity_id"], after.entities[0]["alone"]) == (names[3], "event 2")
    assert after.next == f"{names[3]} event 2"
    assert waiting.page(1, after.next).entities[0]["alone"] == "event/1"
    assert waiting.show(f"{names[3]} event/1")["alone"] == "event/1"
    assert waiting.order("try", [f"{names[3]} event/1"], None, "ann") == 1
    assert waiting.order("give_up", [names[3]], None, "ann") == 1
    assert _wakes(room) == [[f"try:{late}"], [f"give_up:{later}", f"give_up:{late}"]]
    for key in (late, later):
        _gate(room, key, None)


@pytest.fixture
def rows(room: Room, names: list[str]) -> Iterator[list[str]]:
    """Of the first name an event and a state wait for PostgreSQL, and a second event behind."""
    own = (
        ("event.reading.v1", 7, names[0], "23503", 2),
        ("event.reading.v1", 9, names[0], "behind", 0),
        ("state.device.v1", 4, names[0], "55P03", 1),
        ("event.reading.v1", 8, names[3], "23503", 1),
    )
    for topic, offset, line, reason, tries in own:
        room.admin.execute(
            """INSERT INTO headrace.waiting_row (topic, partition, "offset", line, key, value,
                       headers, since, due_at, reason, detail, tries)
               VALUES (%s, 0, %s, %s, %s, '{"value": 1}', '[["ce_id", "e"]]', '2023-11-14Z',
                       '2099-01-01Z', %s, 'it says so', %s)""",
            (topic, offset, line, line.encode(), reason, tries),
        )
    yield names
    room.admin.execute("DELETE FROM headrace.waiting_row")


def test_what_waits_for_postgres_is_listed_with_it(room: Room, rows: list[str]) -> None:
    found = [row for row in Waiting(room.desk).page(1000).entities if row["entity_id"] in rows]
    told = [(row["entity_id"], row["stage"], row["reason"], row["payloads"]) for row in found]
    assert told == [
        (rows[0], "enrich", "not_yet", 3),
        (rows[0], "persist", "23503", 2),
        (rows[0], "persist", "55P03", 1),
        (rows[1], "enrich", "missing_device", 3),
        (rows[2], "enrich", "not_yet", 3),
        (rows[3], "persist", "23503", 1),
    ]
    assert found[1]["next_try"] == "2099-01-01T00:00:00.000Z"
    persist = Waiting(room.desk, "persist")
    first = persist.page(1)  # all lines of an entity on one page
    assert [row["reason"] for row in first.entities] == ["23503", "55P03"]
    assert first.next == rows[0]
    assert [row["entity_id"] for row in persist.page(1, first.next).entities] == [rows[3]]


def test_the_row_that_comes_first_is_shown_whole(room: Room, rows: list[str]) -> None:
    shown = Waiting(room.desk, "persist").show(rows[3])
    assert (shown["place"], shown["detail"]) == ("event.reading.v1/0/8", "it says so")
    assert shown["headers"] == [["ce_id", "e"]]
    assert Waiting(room.desk).show(rows[3]) == shown


def test_orders_for_rows_reach_the_table_and_those_of_another_stage_do_not(
    room: Room, rows: list[str]
) -> None:
    def state() -> list[tuple[int, bool, bool]]:
        return [
            *room.admin.execute(
                """SELECT "offset", due_at <= now(), given_up FROM headrace.waiting_row
                   ORDER BY "offset" """
            )
        ]

    Waiting(room.desk, "enrich").order("try", [rows[0]], None, "ann")
    assert state() == [(n, False, False) for n in (4, 7, 8, 9)]
    assert Waiting(room.desk).order("try", [], "23503", "ann") == 2
    assert state() == [(4, False, False), (7, True, False), (8, True, False), (9, False, False)]
    assert Waiting(room.desk).order("give_up", [rows[0]], None, "ann") == 1
    assert state() == [(4, True, True), (7, True, True), (8, True, False), (9, True, True)]
    assert _wakes(room) == [[f"try:{rows[0]}"], [f"give_up:{rows[0]}"]]
    assert {noted["by"] for noted in room.book.audit(10)} == {"ann"}


def test_who_does_not_wait_is_told_and_nothing_is_ordered(room: Room, names: list[str]) -> None:
    with pytest.raises(NobodyWaitsError, match=names[3]):
        Waiting(room.desk).order("give_up", [names[0], names[3]], None, "ann")
    assert _wakes(room) == []
    assert room.book.audit(10) == []


def test_where_postgres_goes_away_it_is_told_as_that(room: Room, names: list[str]) -> None:
    (pid,) = room.book.values("SELECT pg_backend_pid()")[0]
    room.admin.execute("SELECT pg_terminate_backend(%s)", (pid,))
    with pytest.raises(StoreAwayError):
        Waiting(room.desk).order("try", names[:1], None, "ann")


def test_the_api_lists_shows_and_orders(room: Room, names: list[str]) -> None:
    async def steps() -> None:
        transport = httpx.ASGITransport(room.app())
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            listed = await http.get("/api/waiting", params={"reason": "missing_device"})
            assert names[1] in {row["entity_id"] for row in listed.json()["waiting"]}
            shown = (await http.get(f"/api/waiting/{names[1]}")).json()
            assert (shown["detail"], shown["place"]) == ("device-7", "ingest.telemetry.v1/0/0")
            absent = await http.get(f"/api/waiting/{names[3]}")
            assert (absent.status_code, absent.json()["code"]) == (404, "nobody_waits")
            whose = await http.post("/api/waiting", json={"order": "try"})
            assert (whose.status_code, whose.json()["code"]) == (400, "which_entities")
            bad = await http.post("/api/waiting", json={"order": "drop", "entities": names[:1]})
            assert bad.status_code in (400, 422)
            given_up = await http.post(
                "/api/waiting", json={"order": "give_up", "entities": [names[1]]}
            )
            assert (given_up.status_code, given_up.json()) == (202, {"ordered": 1})

    asyncio.run(steps())
    assert _wakes(room) == [[f"give_up:{names[1]}"]]


def test_a_terminal_lists_shows_and_orders(
    room: Room, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = room.settings.postgres_url.get_secret_value()
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", room.settings.kafka_bootstrap)
    monkeypatch.setenv("HEADRACE_POSTGRES_URL", as_role(url, DESK))

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(cli.app, ["waiting", *arguments])
        assert done.exit_code == 0, done.output
        return done.output

    assert names[0] in run("list", "--reason", "not_yet")
    assert "the service is away" in run("show", names[0])
    assert "the payloads of 1 entity are tried" in run("try", names[0])
    assert "are given up" in run("give-up", names[0])
    assert _wakes(room) == [[f"try:{names[0]}"], [f"give_up:{names[0]}"]]
