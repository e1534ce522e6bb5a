"""Prices in a real PostgreSQL: what is written there reaches their topic, by whom and how ever."""

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import httpx
import kiosk
import orjson
import pytest
from psycopg.errors import CheckViolation
from pydantic import SecretStr
from typer.testing import CliRunner

from clients.kafka.create_topics import ensure_topics
from clients.postgres import store
from clients.postgres.grants import DESK
from clients.postgres.outbox import Outbox
from clients.postgres.source_book import Changes, SourceBook
from desk.app import create_app
from desk.letters.store import LetterBook
from desk.master.service import ChangedMeanwhileError, MasterTables, ReadOnlyTableError
from local_stack import cli
from local_stack.run.stack import Stack
from local_stack.terminal.errors import StackError
from shared.errors import StaleMasterDataError
from shared.master_data import SqlSource
from shared.master_data.rows import BadRowError
from shared.model import Table
from shared.settings import GatewaySettings, JobSettings
from stream_jobs import relay
from stream_jobs.enrich.master_data_view import MasterView
from tests.kafka_log import eventually, last_values
from tests.servers import in_database_of

pytestmark = pytest.mark.stack

TOPIC = "master.price.v1"
COLA = {"article": "cola", "cents": 150}


@pytest.fixture
def desk_url(parts: Stack, postgres_url: str) -> str:
    return in_database_of(postgres_url, parts.postgres_url_of(DESK))


@pytest.fixture
def book(desk_url: str) -> Iterator[LetterBook]:
    """With a desk's own rights."""
    with store.connect(desk_url, "test") as connection:
        yield LetterBook(connection)


@pytest.fixture
def prices(book: LetterBook) -> MasterTables:
    return MasterTables(book, kiosk.FLOW)


def sent(connection: store.Connection) -> list[tuple[str, Any]]:
    """And takes it away. By key, each key's in order."""
    rows = Outbox(connection).pending(5_000)
    connection.execute("DELETE FROM headrace.outbox")
    assert {row.topic for row in rows} <= {TOPIC}
    told = [
        ((row.key or b"").decode(), None if row.value is None else orjson.loads(row.value))
        for row in rows
    ]
    return sorted(told, key=itemgetter(0))


def test_each_change_is_sent_with_the_row_and_a_deletion_as_null(
    prices: MasterTables, connection: store.Connection
) -> None:
    assert prices.set("price", "cola", {"cents": 150}, "ann").revision == 1
    assert sent(connection) == [("cola", COLA)]
    assert prices.set("price", "cola", {"cents": 150}, "ann").revision == 1
    assert sent(connection) == []
    assert prices.set("price", "cola", {"cents": 160}, "ann").revision == 2
    assert sent(connection) == [("cola", {**COLA, "cents": 160})]
    connection.execute("UPDATE headrace.master_row SET key = 'kola'")
    assert sent(connection) == [("cola", None), ("kola", {**COLA, "cents": 160})]
    prices.delete("price", "kola", "ann")
    assert sent(connection) == [("kola", None)]


@pytest.mark.parametrize(
    ("table", "key"),
    [("device", "a"), ("device_model", "a"), ("x", "_relay"), ("x", ""), ("", "a")],
)
def test_sql_too_may_write_no_row_that_another_table_or_the_relay_would_be_taken_for(
    table: str, key: str, connection: store.Connection
) -> None:
    insert = "INSERT INTO headrace.master_row (table_name, key, fields) VALUES (%s, %s, '{}')"
    with pytest.raises(CheckViolation):
        connection.execute(insert, (table, key))


def test_a_row_that_grows_beyond_what_its_topic_takes_is_refused(
    book: LetterBook, connection: store.Connection
) -> None:
    flow = replace(kiosk.FLOW, tables=(Table("any"), *kiosk.FLOW.tables))
    with pytest.raises(BadRowError, match="PostgreSQL refuses it"):
        MasterTables(book, flow).set("any", "a", {"numbers": [1e300] * 4000}, "ann")
    assert sent(connection) == []
    assert book.audit(10) == []


def test_a_row_is_changed_in_the_version_that_was_read_or_not_at_all(
    prices: MasterTables, connection: store.Connection
) -> None:
    first = prices.set("price", "cola", {"cents": 1}, "ann", version="")
    with pytest.raises(ChangedMeanwhileError, match="has a row 'cola' already"):
        prices.set("price", "cola", {"cents": 2}, "bob", version="")
    second = prices.set("price", "cola", {"cents": 3}, "bob", first.version)
    for version in (first.version, "nonsense"):
        with pytest.raises(ChangedMeanwhileError, match="changed meanwhile"):
            prices.set("price", "cola", {"cents": 4}, "ann", version)
        with pytest.raises(ChangedMeanwhileError, match="changed meanwhile"):
            prices.delete("price", "cola", "ann", version)
    assert prices.get("price", "cola") == second
    prices.delete("price", "cola", "ann", second.version)
    anew = prices.set("price", "cola", {"cents": 1}, "ann", version="")
    assert (anew.revision, anew.fields) == (first.revision, first.fields)
    assert anew.version != first.version
    assert len(sent(connection)) == 4


def test_a_hundred_thousand_rows_are_taken_in_within_seconds(
    prices: MasterTables, book: LetterBook, connection: store.Connection
) -> None:
    rows = {f"a{n:06}": {"article": f"a{n:06}", "cents": n} for n in range(100_000)}
    began_s = time.monotonic()
    assert len(prices.take_in("price", rows, "ann", replace=False).added) == 100_000
    took_s = time.monotonic() - began_s
    print(f"100,000 rows were taken in within {took_s:.1f} s")
    assert took_s < 40
    assert connection.execute("SELECT count(*) FROM headrace.outbox").fetchone() == (100_000,)
    connection.execute("DELETE FROM headrace.outbox")
    rows["a000000"] = {**rows["a000000"], "cents": 7}
    del rows["a099999"]
    began_s = time.monotonic()
    found = prices.take_in("price", rows, "ann", replace=True)
    print(f"and what differs within {time.monotonic() - began_s:.1f} s")
    assert (len(found.added), len(found.changed), found.same) == (0, 1, 99_998)
    assert [key for key, _ in sent(connection)] == ["a000000", "a099999"]
    assert prices.tables() == [{"table": "price", "key": "article", "rows": 99_999}]
    page, following = prices.page("price", 2, "a050000")
    assert ([row.key for row in page], following) == (["a050001", "a050002"], "a050002")
    noted = [(one["what"], one["letters"]) for one in book.audit(10)]
    assert noted == [("import price", 2), ("import price", 100_000)]


def test_a_terminal_lists_sets_deletes_imports_and_compares(
    desk_url: str, connection: store.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_POSTGRES_URL", desk_url)
    monkeypatch.setenv("HEADRACE_FLOW", "kiosk:FLOW")

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(cli.app, ["master", *arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    def refused(*arguments: str) -> str:
        with pytest.raises(StackError) as error:
            CliRunner().invoke(cli.app, ["master", *arguments], catch_exceptions=False)
        return error.value.what

    assert "price has no row" in run("list", "price")
    assert '"cents": 150' in run("set", "price", "cola", '{"cents": 150}')
    assert "price  article  1" in run("list")
    assert refused("set", "price", "cola", '{"cents": "1"}') == (
        "the row is wrong: wrong_type: cents: Input should be a valid integer"
    )
    assert "not JSON" in refused("set", "price", "cola", "{")
    assert "declares no table 'prices'; its tables: price" in refused("list", "prices")
    assert "./headrace devices" in refused("list", "device")
    assert refused("get", "price", "chips") == "price has no row 'chips'"
    file = tmp_path / "prices.csv"
    file.write_text("article,cents\ncola,160\nchips,x\n")
    assert "line 3: bad_value: cents" in refused("import", "price", str(file))
    file.write_text("article,cents\nchips,200\n")
    told = run("diff", "price", str(file))
    assert '+ chips  {"article":"chips","cents":200}' in told
    assert "- cola  (with --replace)" in told
    assert "1 added, 0 changed, 0 same; 1 more are there" in run("import", "price", str(file))
    file.write_text("article,cents\nchips,250\n")
    assert "~ chips  cents: 200 → 250" in run("diff", "price", str(file))
    counts = orjson.loads(run("import", "price", str(file), "--replace", "-o", "json"))
    assert counts == {"added": 0, "changed": 1, "same": 0, "deleted": 1}
    assert "is deleted" in run("delete", "price", "chips")
    assert [key for key, _ in sent(connection)] == ["chips", "chips", "chips", "cola", "cola"]


def test_the_api_shows_and_changes_rows(
    desk_url: str, tmp_path: Path, connection: store.Connection
) -> None:
    settings = GatewaySettings(
        flow="kiosk:FLOW",
        kafka_bootstrap="127.0.0.1:1",  # nobody needs it
        postgres_url=SecretStr(desk_url),
        state_dir=tmp_path,
    )

    async def steps() -> None:
        transport = httpx.ASGITransport(create_app(settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:

            async def refused(method: str, path: str, **options: Any) -> tuple[int, str]:
                answer = await http.request(method, f"/api/master{path}", **options)
                assert answer.headers["content-type"] == "application/problem+json"
                return answer.status_code, answer.json()["code"]

            path = "/api/master/price/cola"
            set_ = await http.put(path, json={"cents": 150})
            assert set_.status_code == 200, set_.text
            assert {**set_.json(), "updated_at": None} == {
                "key": "cola", "fields": COLA, "revision": 1, "updated_at": None,
            }  # fmt: skip
            got = await http.get(path)
            assert (got.json(), got.headers["etag"]) == (set_.json(), set_.headers["etag"])
            listed = (await http.get("/api/master/price", params={"limit": 1})).json()
            assert listed == {"rows": [got.json()], "next": None}
            tables = (await http.get("/api/master")).json()
            assert tables == {"tables": [{"table": "price", "key": "article", "rows": 1}]}

            assert await refused("PUT", "/price/cola", json={"cents": -1}) == (422, "bad_row")
            assert await refused("PUT", "/price/cola", json=[1]) == (422, "bad_row")
            no_json = {"content": b"{", "headers": {"content-type": "application/json"}}
            assert await refused("PUT", "/price/cola", **no_json) == (422, "invalid_request")
            assert await refused("GET", "/price/chips") == (404, "no_row")
            assert await refused("DELETE", "/price/chips") == (404, "no_row")
            assert await refused("GET", "/prices") == (404, "no_table")
            assert await refused("PUT", "/device/d", json={}) == (404, "no_table")

            first = got.headers["etag"]
            changed = await http.put(path, json={"cents": 160}, headers={"if-match": first})
            assert changed.json()["revision"] == 2
            old = {"headers": {"if-match": first}}
            meanwhile = (412, "changed_meanwhile")
            assert await refused("PUT", "/price/cola", json={"cents": 1}, **old) == meanwhile
            assert await refused("DELETE", "/price/cola", **old) == meanwhile
            new = {"headers": {"if-none-match": "*"}}
            assert await refused("PUT", "/price/cola", json={"cents": 1}, **new) == meanwhile
            weak = {"headers": {"if-match": "*"}}
            assert await refused("DELETE", "/price/cola", **weak) == (400, "bad_condition")
            gone = await http.delete(path, headers={"if-match": changed.headers["etag"]})
            assert (gone.status_code, gone.content) == (204, b"")

    asyncio.run(steps())
    assert [value and value["cents"] for _, value in sent(connection)].count(None) == 1
    audit = connection.execute("SELECT by, what FROM headrace.letter_audit ORDER BY seq").fetchall()
    assert audit == [
        *[("anyone", "set price cola")] * 2,
        ("anyone", "delete price cola"),
    ]


def test_a_file_is_taken_in_over_http_as_at_a_terminal(
    desk_url: str, tmp_path: Path, connection: store.Connection
) -> None:
    settings = GatewaySettings(
        flow="kiosk:FLOW",
        kafka_bootstrap="127.0.0.1:1",
        postgres_url=SecretStr(desk_url),
        state_dir=tmp_path,
    )

    async def steps() -> None:
        transport = httpx.ASGITransport(create_app(settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:

            async def post(content: bytes, kind: str = "text/csv", **query: Any) -> httpx.Response:
                headers = {"content-type": kind}
                path = "/api/master/price/import"
                return await http.post(path, content=content, headers=headers, params=query)

            csv = b"article,cents\ncola,150\nchips,200\n"
            would = (await post(csv, dry_run=True)).json()
            assert would["added"].keys() == {"cola", "chips"}
            assert (await http.get("/api/master/price")).json()["rows"] == []
            done = {"added": 2, "changed": 0, "same": 0, "kept": 0}
            assert (await post(csv)).json() == done
            lines = b'{"article": "cola", "cents": 160}\n'
            counts = (await post(lines, "application/x-ndjson; charset=utf-8", replace=True)).json()
            assert counts == {"added": 0, "changed": 1, "same": 0, "deleted": 1}
            semicolons = await post(b"article;cents\ncola;160\n", delimiter=";")
            assert semicolons.json() == {"added": 0, "changed": 0, "same": 1, "kept": 0}

            wrong = await post(b"article,cents\nnuts,1\ncola,x\n")
            assert (wrong.status_code, wrong.json()["code"]) == (422, "bad_file")
            assert wrong.json()["detail"].startswith("line 3: bad_value: cents")
            assert (await post(b"{}", "text/html")).json()["code"] == "unknown_kind"
            big = await post(b"x" * (64 * 1024 * 1024 + 1))
            assert (big.status_code, big.json()["code"]) == (413, "too_large")
            assert (await http.post("/api/master/prices/import")).status_code in (404, 415)

            async def endless() -> Any:
                for _ in range(66):
                    yield b"x" * 1024 * 1024

            path, kind = "/api/master/price/import", {"content-type": "text/csv"}
            chunked = await http.post(path, content=endless(), headers=kind)
            assert chunked.status_code == 413
            rows = (await http.get("/api/master/price")).json()["rows"]
            assert [row["fields"] for row in rows] == [{**COLA, "cents": 160}]

    asyncio.run(steps())
    audit = connection.execute("SELECT by, what, letters FROM headrace.letter_audit").fetchall()
    assert audit == [("anyone", "import price", 2), ("anyone", "import price", 2)]


def test_rows_that_come_from_a_store_of_the_users_are_not_written_here(
    book: LetterBook, connection: store.Connection
) -> None:
    source = SqlSource("shop", "stock.price")
    (table,) = kiosk.FLOW.tables
    flow = replace(kiosk.FLOW, tables=(replace(table, source=source),))
    master = MasterTables(book, flow)
    says = "the rows of 'price' are read from stock.price in shop: change them there"
    for write in (
        lambda: master.set("price", "cola", {"cents": 1}, "ann"),
        lambda: master.delete("price", "cola", "ann"),
        lambda: master.take_in("price", {}, "ann", replace=True),
    ):
        with pytest.raises(ReadOnlyTableError, match=says):
            write()
    assert master.page("price", 10) == ([], None)
    told = {"table": "price", "source": "stock.price in shop", "rows_as_of": None, "refused": 0}
    assert master.sources() == [told]
    sourced = SourceBook(connection, "price", "digest")
    changes = Changes()
    changes.refuse("cola", "cents: it is a text")
    sourced.keep(changes)
    sourced.keep_position(None, 1_795_000_000_000, 1_795_000_000_000)
    (known,) = master.sources()
    assert (known["rows_as_of"].year, known["refused"]) == (2026, 1)
    assert [one[:2] for one in master.refusals("price", 5)] == [("cola", "cents: it is a text")]


def _value_of_cola(settings: JobSettings) -> Any:
    return last_values(settings.kafka_bootstrap, TOPIC).get("cola")


def test_what_is_set_is_looked_up_with_the_relay_confirming_it(
    job_settings: JobSettings, prices: MasterTables
) -> None:
    settings = job_settings.model_copy(update={"flow": "kiosk:FLOW"})
    ensure_topics(kiosk.FLOW, settings)
    stop = threading.Event()
    thread = threading.Thread(target=relay.run, args=(settings, stop))
    thread.start()
    try:
        prices.set("price", "cola", {"cents": 150}, "ann")
        eventually(lambda: _value_of_cola(settings) == COLA, 120)
        view = MasterView(settings.kafka, ("price",), age_max_s=60)

        def finds(fields: dict[str, Any] | None) -> bool:
            view.catch_up()
            return view.find("price", "cola") == fields

        def is_confirmed() -> bool:
            """By the relay, once it has sent the row."""
            try:
                view.refresh()
            except StaleMasterDataError:
                return False
            return True

        assert finds(COLA)
        eventually(is_confirmed)
        prices.delete("price", "cola", "ann")
        eventually(lambda: finds(None), 120)
    finally:
        stop.set()
        thread.join(60)
