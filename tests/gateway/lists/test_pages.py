"""Pages of the view's file against a plain sort of all states, while these change."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gateway.http.problems import Problem
from gateway.lists import page
from gateway.lists.list_request import Asked, asked_of
from gateway.lists.queries import Queries
from gateway.lists.reader import ListReader, Page
from gateway.lists.spans import spans_of
from gateway.state_view.store import view_path
from shared.forwarding.conditions import condition
from shared.ids import tenant_of
from shared.tables.indexed_fields import IndexedStates, indexed_states
from tests.gateway.lists.support import DEVICES, TOPIC, States, room

(ROOMS,) = indexed_states([room("mode", "celsius", "site.floor", "is_open")])
SORTS = "id", "mode", "celsius", "site.floor", "is_open"
_WHERE = (
    *('mode = "day"', 'mode != "day"', 'mode >= "n"', "mode = null"),
    *("celsius > 3", "celsius <= 7 and celsius > 2.5", "celsius = 4", "celsius != null"),
    *("site.floor = null", "site.floor < 2", "site.floor != 1", "is_open = true"),
    *("is_open != false", 'id > "r-1"', 'id = "r-7"', 'id != "r-7"'),
)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[ListReader]:
    reader = ListReader(tmp_path)
    yield reader
    asyncio.run(reader.stop())


@pytest.fixture
def rooms(tmp_path: Path) -> States:
    rooms = States(tmp_path, (ROOMS,), ROOMS.topic)
    rooms.store.begin_topic(ROOMS.topic, "an id")
    while rooms.store.index_more():
        pass
    rooms.store.caught_up([ROOMS.topic], 1)
    return rooms


def asked(states: IndexedStates, tenant: str = "", **parameters: Any) -> Asked:
    return asked_of(states, tenant, None, [(name, str(its)) for name, its in parameters.items()])


def read(reader: ListReader, question: Asked) -> Page:
    found = asyncio.run(reader.page(question))
    assert found.is_indexed
    return found


def every_id(reader: ListReader, states: IndexedStates, **parameters: Any) -> list[str]:
    found: list[str] = []
    after = ""
    while True:
        its = read(reader, asked(states, **parameters, next=after))
        found += [one["id"] for one in its.states]
        if its.next is None:
            return found
        after = its.next


def random_room(chance: Random) -> dict[str, Any]:
    return {
        "mode": chance.choice(["day", "night", "nächtlich", None]),
        "celsius": chance.choice([None, *range(10), 2.5]),
        "site": chance.choice([None, {"floor": chance.choice([None, 0, 1, 2])}]),
        "is_open": chance.choice([True, False, None]),
    }


def _value(fields: dict[str, Any], field: str) -> Any:
    return (fields["site"] or {}).get("floor") if field == "site.floor" else fields.get(field)


def holds(own_id: str, fields: dict[str, Any], told: str) -> bool:
    """By the conditions of webhooks. An index cannot tell what is absent from null."""
    flat = {"id": own_id, **fields, "site": {"floor": _value(fields, "site.floor")}}
    return all(condition(one).holds(flat) for one in told.split(" and ") if one)


def expected(known: dict[str, dict[str, Any]], tenant: str, where: str, sort: str) -> list[str]:
    field = sort.removeprefix("-")
    own = {key.rpartition("/")[2]: its for key, its in known.items() if tenant_of(key) == tenant}
    ids = sorted(own_id for own_id, its in own.items() if holds(own_id, its, where))
    if field == "id":
        return ids[::-1] if sort != field else ids
    some = [own_id for own_id in ids if _value(own[own_id], field) is not None]
    none = [own_id for own_id in ids if _value(own[own_id], field) is None]
    some.sort(key=lambda own_id: (_value(own[own_id], field), own_id), reverse=sort != field)
    return some + (none[::-1] if sort != field else none)


@pytest.mark.parametrize("seed", range(6))
def test_pages_are_what_a_sort_of_all_states_says(
    rooms: States, reader: ListReader, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = Random(seed)
    # of a few states, each way of reading them
    monkeypatch.setattr(page, "GATHERED_MAX", chance.choice([0, 8, 1000]))
    monkeypatch.setattr(page, "_BYTES_MAX", chance.choice([1, 900, 1_000_000]))
    monkeypatch.setattr(page, "_LOOKED_AT_MAX", chance.choice([1, 10, 1000]))
    monkeypatch.setattr(page, "_AT_ONCE", chance.choice([1, 3, 500]))
    known: dict[str, dict[str, Any]] = {}
    for number in range(60):
        key = f"{chance.choice(['', '', 'acme/', 'b/'])}r-{number}"
        known[key] = random_room(chance)
        rooms.put(key, **known[key])
    for _ in range(40):
        tenant, where = chance.choice(["", "", "acme", "none"]), chance.sample(_WHERE, k=3)
        told = " and ".join(where[: chance.choice([0, 1, 1, 2, 3])])
        sort = chance.choice(["", "-"]) + chance.choice(SORTS)
        parameters = {"sort": sort, "limit": chance.choice([1, 2, 7, 1000])}
        if told:
            parameters["where"] = told
        found = every_id(reader, ROOMS, tenant=tenant, **parameters)
        assert found == expected(known, tenant, told, sort), (tenant, told, sort)


@pytest.mark.parametrize("seed", range(8))
def test_what_does_not_change_while_one_pages_is_seen_exactly_once(
    rooms: States, reader: ListReader, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = Random(seed)
    monkeypatch.setattr(page, "GATHERED_MAX", chance.choice([0, 1000]))
    monkeypatch.setattr(page, "_BYTES_MAX", chance.choice([500, 1_000_000]))
    monkeypatch.setattr(page, "_LOOKED_AT_MAX", 5)
    monkeypatch.setattr(page, "_AT_ONCE", 2)
    known = {f"r-{number}": random_room(chance) for number in range(50)}
    versions = dict.fromkeys(known, 1)
    for key, fields in known.items():
        rooms.put(key, **fields)
    changing = chance.sample(sorted(known), k=15)
    told, sort = chance.choice(_WHERE), chance.choice(["", "-"]) + chance.choice(SORTS)
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        its = read(reader, asked(ROOMS, where=told, sort=sort, limit=3, next=after))
        found += [one["id"] for one in its.states]
        after = its.next
        for key in chance.sample(changing, k=3):
            versions[key] += 1
            is_gone = chance.random() < 0.3
            rooms.put(key, versions[key], is_gone, **random_room(chance))
        rooms.put(f"r-new-{len(found)}", **random_room(chance))
    steady = [own_id for own_id in found if own_id in known and own_id not in changing]
    at_rest = {key: its for key, its in known.items() if key not in changing}
    assert steady == expected(at_rest, "", told, sort)


def test_what_is_deleted_or_removed_is_left_out_until_it_comes_anew(
    rooms: States, reader: ListReader
) -> None:
    for key in ("a", "b", "c"):
        rooms.put(key, 5, mode="day")
    rooms.put("a", 6, deleted=True, mode="day")
    rooms.remove("b")
    assert every_id(reader, ROOMS, where='mode = "day"') == ["c"]
    # an older version that comes again does not show it once more
    rooms.put("a", 5, mode="day")
    assert every_id(reader, ROOMS) == ["c"]
    rooms.put("a", 7, mode="night")
    rooms.put("c", 4, mode="night")
    assert every_id(reader, ROOMS, where='mode = "night"') == ["a"]
    rooms.store.begin_topic(ROOMS.topic, "another id")
    rooms.store.caught_up([ROOMS.topic], 1)
    assert every_id(reader, ROOMS) == []


def test_what_is_no_id_is_listed_nowhere(rooms: States, reader: ListReader) -> None:
    for key in ("r-1", "acme/r-2", "a/b/c", "/x", "r 3", "acme/"):
        rooms.put(key, mode="day")
    assert every_id(reader, ROOMS) == ["r-1"]
    assert every_id(reader, ROOMS, tenant="acme") == ["r-2"]


def test_each_statement_goes_along_an_index(rooms: States) -> None:
    chance = Random(7)
    for told in (*_WHERE, *(f"{one} and {other}" for one in _WHERE for other in _WHERE)):
        question = asked(ROOMS, where=told, sort=chance.choice(["", "-"]) + chance.choice(SORTS))
        spans = spans_of(question.conditions)
        queries = Queries(question, spans)
        narrow = [field for field, span in spans.by_field.items() if span.is_narrow]
        value = {"mode": "day", "id": None}.get(question.sort, 1)
        for place in (None, page.Place(value, b"r-1"), page.Place(None, b"r-1")):
            parts = [part(place) for part in queries.parts(place, None)]
            sorted_ones = [queries.gathered(field, place) for field in narrow]
            counts = [queries.count(field, 5) for field in narrow]
            for sql, values in (*parts, *sorted_ones, *counts):
                limit = () if sql.startswith("SELECT count") else (5,)
                plan = rooms.store._db.execute(f"EXPLAIN QUERY PLAN {sql}", (*values, *limit))
                steps = [step[3] for step in plan]
                assert any("SEARCH states_room USING" in step for step in steps), (sql, steps)
                is_sorted = any("TEMP B-TREE" in step for step in steps)
                assert not is_sorted or any(sql == one.sql for one in sorted_ones), (sql, steps)


def test_a_page_of_many_looks_at_few(
    rooms: States, reader: ListReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "GATHERED_MAX", 5)
    monkeypatch.setattr(page, "_LOOKED_AT_MAX", 10)
    monkeypatch.setattr(page, "_AT_ONCE", 5)
    rows = [(f"r-{n:03}", 1, False, {"mode": "day", "celsius": n}) for n in range(100)]
    rooms.put_all([*rows, *((f"x-{n}", 1, False, {"mode": "night"}) for n in range(9))])
    where = 'mode != "day"'
    first = read(reader, asked(ROOMS, where=where, sort="celsius"))
    assert first.states == []
    assert first.next is not None
    assert len(every_id(reader, ROOMS, where=where, sort="celsius")) == 9


def test_other_fields_are_indexed_out_of_the_states_that_there_are(
    tmp_path: Path, reader: ListReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.state_view.state_index._ROWS_AT_ONCE", 4)
    before = States(tmp_path, (), ROOMS.topic)
    before.store.begin_topic(ROOMS.topic, "an id")
    before.store.caught_up([ROOMS.topic], 1)
    before.put_all([(f"r-{n}", 3, False, {"mode": "day", "celsius": n}) for n in range(9)])
    before.put("r-1", 4, deleted=True)
    before.store.close()

    question = asked(ROOMS, where="celsius >= 2", sort="-celsius")
    assert not asyncio.run(reader.page(question)).is_indexed
    now = States(tmp_path, (ROOMS,), ROOMS.topic)
    assert now.store.topic_ids() == {ROOMS.topic: "an id"}
    assert now.store.index_more()
    # what changes meanwhile is in it, too, on either side of where it is
    now.put("r-0", 4, mode="day", celsius=20)
    now.put("r-8", 4, mode="day", celsius=21)
    now.put("r-7", 4, deleted=True)
    assert not asyncio.run(reader.page(question)).is_indexed
    now.store.close()

    again = States(tmp_path, (ROOMS,), ROOMS.topic)  # it goes on where it was
    while again.store.index_more():
        pass
    ids = [one["id"] for one in read(reader, question).states]
    assert ids == ["r-8", "r-0", "r-6", "r-5", "r-4", "r-3", "r-2"]
    again.store.close()

    (others,) = indexed_states([room("mode")])
    States(tmp_path, (others,), ROOMS.topic).store.close()
    assert not asyncio.run(reader.page(question)).is_indexed
    none = States(tmp_path, (), ROOMS.topic)
    tables = none.store._db.execute("SELECT name FROM sqlite_master WHERE name GLOB 'states_*'")
    assert tables.fetchall() == []


@pytest.mark.parametrize("change", ["f1 = 99", "key = x'722d32'", "f0 = 'night'"])
def test_a_list_that_is_not_as_the_states_are_is_not_shown(
    tmp_path: Path, rooms: States, reader: ListReader, change: str
) -> None:
    rooms.put("r-1", mode="day", celsius=1)
    rooms.put("r-2", deleted=True)
    read(reader, asked(ROOMS))
    rooms.store._db.execute(f"UPDATE states_room SET {change}")
    assert not asyncio.run(reader.page(asked(ROOMS))).is_indexed
    assert not view_path(tmp_path).exists()


def test_too_many_that_ask_at_once_are_to_come_again(
    tmp_path: Path, rooms: States, monkeypatch: pytest.MonkeyPatch
) -> None:
    rooms.put("r-1", mode="day")
    monkeypatch.setattr("gateway.lists.reader._WAITING_MAX", 2)

    async def three() -> list[Any]:
        reader = ListReader(tmp_path)
        pages = (reader.page(asked(ROOMS)) for _ in range(3))
        found = await asyncio.gather(*pages, return_exceptions=True)
        assert (await reader.page(asked(ROOMS))).is_indexed
        await reader.stop()
        return found

    first, second, third = asyncio.run(three())
    assert len(first.states) == len(second.states) == 1
    assert isinstance(third, Problem)
    assert (third.status, third.code) == (503, "too_many_lists")


def test_the_sample_s_devices_are_indexed() -> None:
    assert DEVICES.topic == TOPIC
    assert [field.kind for field in DEVICES.fields] == [*["string"] * 3, "double"]
