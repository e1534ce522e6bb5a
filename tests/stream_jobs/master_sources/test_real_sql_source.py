"""Prices of a shop's own table, in a real PostgreSQL."""

import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import orjson
import psycopg
import pytest

from clients.kafka.create_topics import ensure_topics
from clients.postgres.store import Connection
from local_stack.run.stack import Stack
from shared.master_data import SqlSource
from shared.model import Table
from shared.settings import JobSettings
from tests.job_process import JobProcess
from tests.kafka_log import eventually, last_values
from tests.stream_jobs.master_sources.conftest import Known, Shop, reading, said
from tests.stream_jobs.sourced_flow import FLOW, PRICE

pytestmark = pytest.mark.stack


def table(**changes: Any) -> Table:
    assert isinstance(PRICE.source, SqlSource)
    return replace(PRICE, source=replace(PRICE.source, **changes))


def test_rows_come_and_change_and_go(
    shop: Shop, shop_settings: JobSettings, prices: Known, connection: Connection
) -> None:
    shop.price("cola", 150, name="Cola")
    shop.price("chips", 200)
    with reading(shop_settings, table(deleted="gone", compare_every_s=3600)):
        prices.becomes({"cola": 150, "chips": 200})
        assert prices.rows()["cola"] == {"article": "cola", "cents": 150, "name": "Cola"}
        assert prices.rows()["chips"] == {"article": "chips", "cents": 200}
        shop.price("cola", 160)
        shop.price("nuts", 300)
        prices.becomes({"cola": 160, "chips": 200, "nuts": 300})
        shop.price("chips", 200, gone=True)
        prices.becomes({"cola": 160, "nuts": 300})
        shop.price("chips", 250, gone=False)
        prices.becomes({"cola": 160, "nuts": 300, "chips": 250})
    assert prices.revisions() == {"cola": 2, "nuts": 1, "chips": 1}
    sent = connection.execute("SELECT count(*) FROM headrace.outbox").fetchone()
    assert sent == (6,)  # three new ones, one changed, one gone, one anew: none twice


def test_what_was_deleted_is_found_by_reading_all(
    shop: Shop, shop_settings: JobSettings, prices: Known
) -> None:
    shop.price("cola", 150)
    shop.price("chips", 200)
    with reading(shop_settings, table(compare_every_s=1)):
        prices.becomes({"cola": 150, "chips": 200})
        shop.do("DELETE FROM stock.price WHERE article = 'cola'")
        prices.becomes({"chips": 200})


def test_a_table_without_a_version_is_read_whole(
    shop: Shop, shop_settings: JobSettings, prices: Known
) -> None:
    shop.price("cola", 150)
    with reading(shop_settings, table(version=None)):
        prices.becomes({"cola": 150})
        shop.do("UPDATE stock.price SET cents = 160")  # its time is as it was
        prices.becomes({"cola": 160})
        shop.do("DELETE FROM stock.price")
        prices.becomes({})


def test_a_view_and_a_growing_number_do_as_well(
    shop: Shop, shop_settings: JobSettings, prices: Known
) -> None:
    shop.do("""
        CREATE SEQUENCE changes;
        CREATE TABLE stock."The Prices" (id bigint PRIMARY KEY, eur numeric, n bigint NOT NULL);
        CREATE VIEW stock.shown AS
            SELECT id AS article, (eur * 100)::int AS cents, n FROM stock."The Prices"
    """)
    shop.do(f"GRANT SELECT ON stock.shown TO {shop.name}")
    shop.do("""INSERT INTO stock."The Prices" VALUES (7, 1.5, nextval('changes'))""")
    with reading(shop_settings, table(relation="stock.shown", version="n")):
        prices.becomes({"7": 150})
        shop.do("""UPDATE stock."The Prices" SET eur = 1.6, n = nextval('changes')""")
        prices.becomes({"7": 160})


def test_a_transaction_that_commits_late_with_an_early_time_is_not_passed_over(
    shop: Shop, shop_settings: JobSettings, prices: Known
) -> None:
    shop.price("cola", 150)
    with (
        reading(shop_settings, table(compare_every_s=3600)),
        psycopg.connect(shop.url) as slow,
        psycopg.connect(shop.url) as slower,
    ):
        prices.becomes({"cola": 150})
        for connection in (slow, slower):
            connection.execute("SELECT now()")  # which is their time from now on
        # this one has written nothing until all others are long known: no snapshot tells of it
        for number in range(10):
            shop.price("chips", number)
            time.sleep(0.3)
        prices.becomes({"cola": 150, "chips": 9})
        slow.execute("INSERT INTO stock.price (article, cents) VALUES ('nuts', 1)")
        slow.commit()
        prices.becomes({"cola": 150, "chips": 9, "nuts": 1})
        time.sleep(1)
        slower.execute("UPDATE stock.price SET cents = 2, updated_at = now()")
        slower.commit()
        prices.becomes({"cola": 2, "chips": 2, "nuts": 2})


def test_rows_of_the_same_time_are_all_taken(
    shop: Shop, shop_settings: JobSettings, prices: Known
) -> None:
    at = "2026-01-01T00:00:00Z"
    shop.price("cola", 150, updated_at=at)
    with reading(shop_settings, table(late_s=3, compare_every_s=3600)):
        prices.becomes({"cola": 150})
        time.sleep(1)
        shop.price("chips", 200, updated_at=at)
        prices.becomes({"cola": 150, "chips": 200})


def test_a_row_of_a_time_to_come_hides_no_other(
    shop: Shop, shop_settings: JobSettings, prices: Known
) -> None:
    shop.price("cola", 150, updated_at="2099-01-01T00:00:00Z")
    with reading(shop_settings, table(compare_every_s=3600)):
        prices.becomes({"cola": 150})
        time.sleep(1)
        shop.price("chips", 200)
        prices.becomes({"cola": 150, "chips": 200})
        shop.price("cola", 160, updated_at="2098-01-01T00:00:00Z")
        prices.becomes({"cola": 160, "chips": 200})


def test_a_row_that_comes_back_as_it_was_is_taken_again(
    shop: Shop, shop_settings: JobSettings, prices: Known
) -> None:
    shop.price("cola", 150)
    with reading(shop_settings, table(version=None)):
        for _ in range(2):
            prices.becomes({"cola": 150})
            shop.do("CREATE TABLE stock.kept AS TABLE stock.price; DELETE FROM stock.price")
            prices.becomes({})
            shop.do("INSERT INTO stock.price TABLE stock.kept; DROP TABLE stock.kept")


def test_a_row_that_breaks_the_contract_is_refused_and_what_it_was_stays(
    shop: Shop, shop_settings: JobSettings, prices: Known
) -> None:
    ensure_topics(FLOW, shop_settings)
    shop.price("cola", 150)
    with reading(shop_settings, table(compare_every_s=1)):
        prices.becomes({"cola": 150})
        shop.price("cola", -1)
        shop.price("chips", None)
        shop.price("a/b/c", 5)
        prices.refuses({"cola": "cents: Input should be gr", "chips": "cents", "a/b/c": "a key"})
        shop.price("nuts", 300)  # nothing stops
        prices.becomes({"cola": 150, "nuts": 300})

        def tells_of_three() -> bool:
            """It speaks every two seconds, and may have seen one or two of them first."""
            word = said(shop_settings)
            told = "3 rows: ./headrace master refused price" in word.get("detail", "")
            return word.get("state") == "refusing" and told

        eventually(tells_of_three)
        shop.price("cola", 160)
        prices.refuses({"chips": "cents", "a/b/c": "a key"})
        prices.becomes({"cola": 160, "nuts": 300})
        shop.do("DELETE FROM stock.price WHERE article <> 'cola'")
        prices.refuses({})
        prices.becomes({"cola": 160})


def test_a_key_that_two_rows_have_is_refused(
    shop: Shop, shop_settings: JobSettings, prices: Known
) -> None:
    shop.do("CREATE VIEW stock.twice AS SELECT * FROM stock.price UNION ALL TABLE stock.price")
    shop.do(f"GRANT SELECT ON stock.twice TO {shop.name}")
    shop.price("cola", 150)
    with reading(shop_settings, table(relation="stock.twice", version=None)):
        prices.refuses({"cola": "more than one row"})
        assert prices.cents() == {"cola": 150}


def test_while_the_shop_is_away_the_last_rows_stay_and_their_age_is_told(
    shop: Shop, shop_settings: JobSettings, prices: Known
) -> None:
    ensure_topics(FLOW, shop_settings)
    shop.price("cola", 150)
    with reading(shop_settings, table()):
        prices.becomes({"cola": 150})
        shop.close_to_all()
        shop.price("cola", 160)
        eventually(lambda: said(shop_settings).get("state") == "waiting")
        word = said(shop_settings)
        assert word["detail"].startswith("stock.price in shop: ")
        assert "its rows are as of 20" in word["detail"]
        eventually(lambda: said(shop_settings)["lag_s"] >= 2)
        assert prices.cents() == {"cola": 150}
        shop.open_again()
        prices.becomes({"cola": 160})
        eventually(lambda: said(shop_settings)["state"] == "running")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"database": "other"}, "HEADRACE_MASTER_DATABASES has no 'other'"),
        ({"relation": "stock.prices"}, "there is no table or view stock.prices"),
        ({"version": "changed_at"}, "stock.price has no column 'changed_at'"),
        ({"version": "name"}, "its version 'name' is text: no time and no number"),
        ({"relation": "stock.hidden"}, "permission denied"),
    ],
)
def test_what_cannot_be_read_is_told_with_what_to_do(
    changes: dict[str, str], says: str, shop: Shop, shop_settings: JobSettings
) -> None:
    ensure_topics(FLOW, shop_settings)
    shop.do("CREATE TABLE stock.hidden AS TABLE stock.price")
    with reading(shop_settings, table(**changes)):
        eventually(lambda: says in said(shop_settings).get("detail", ""))
        assert "no row was read yet" in said(shop_settings)["detail"]


def test_a_changed_contract_judges_all_rows_anew(
    shop: Shop, shop_settings: JobSettings, prices: Known
) -> None:
    shop.price("cola", 150, name="Cola")
    with reading(shop_settings, replace(table(compare_every_s=3600), row=None)):
        prices.becomes({"cola": 150})
        assert prices.rows()["cola"]["supplier"] == "secret"
    with reading(shop_settings, table(compare_every_s=3600)):
        eventually(lambda: prices.rows()["cola"].keys() == {"article", "cents", "name"})


def test_a_relay_that_is_killed_again_and_again_loses_and_doubles_nothing(
    shop: Shop,
    job_settings: JobSettings,
    empty_kafka: Stack,
    prices: Known,
    tmp_path: Path,
    connection: Connection,
) -> None:
    settings = job_settings.model_copy(
        update={
            "kafka_bootstrap": empty_kafka.kafka_bootstrap,
            "flow": "tests.stream_jobs.sourced_flow:FLOW",
            "partitions": 1,
        }
    )
    ensure_topics(FLOW, settings)
    databases = orjson.dumps({"shop": shop.reader_url}).decode()
    process = JobProcess(
        "relay",
        settings,
        tmp_path / "log",
        {
            "HEADRACE_POSTGRES_URL": settings.postgres_url.get_secret_value(),
            "HEADRACE_MASTER_DATABASES": databases,
        },
    )
    random, writes = Random(1), 0
    shop.do("""INSERT INTO stock.price (article, cents)
               SELECT 'a' || n, n FROM generate_series(1, 20000) AS n""")
    with process:
        for _ in range(8):
            for _ in range(20):
                shop.price(f"a{random.randint(1, 20100)}", random.randint(0, 1000))
                writes += 1
            time.sleep(random.uniform(0.2, 3))
            process.kill()
            process.start()
        found = shop.db.execute("SELECT article, cents FROM stock.price").fetchall()
        expected: dict[str, int] = dict(found)
        prices.becomes(expected)
        eventually(
            lambda: connection.execute("SELECT count(*) FROM headrace.outbox").fetchone() == (0,),
            240,
        )
    last = last_values(settings.kafka_bootstrap, "master.price.v1")
    assert {key: row["cents"] for key, row in last.items() if key != "_relay"} == expected
    # each write changed its row once at most, however often it was read
    assert sum(prices.revisions().values()) <= len(expected) + writes
