"""What may stand in a source and in no row: it is told, and holds up nothing."""

import time
from dataclasses import replace
from typing import Any, NotRequired

import pytest

from clients.kafka.create_topics import ensure_topics
from shared.master_data import SqlSource, TopicSource
from shared.model import Table
from shared.settings import JobSettings
from tests.kafka_log import eventually
from tests.stream_jobs.master_sources.conftest import Known, Shop, Topic, reading, said
from tests.stream_jobs.sourced_flow import FLOW, PRICE, TARIFF, Tariff

pytestmark = pytest.mark.stack


class CountedTariff(Tariff):
    counts: NotRequired[dict[str, int]]


class TimedTariff(Tariff):
    from_ms: int


def priced(**changes: Any) -> Table:
    assert isinstance(PRICE.source, SqlSource)
    return replace(PRICE, source=replace(PRICE.source, **changes))


def told(topic: Topic, row: type, **changes: Any) -> Table:
    return replace(TARIFF, row=row, source=TopicSource(topic.name), **changes)


def test_nul_in_a_key_holds_up_nothing(
    topic: Topic, job_settings: JobSettings, tariffs: Known
) -> None:
    topic.put(b"a\0", None)
    topic.put(b'"a\\u0000"', None)
    topic.put(b"x\0", b"{")
    topic.put(b"b", b'{"zone": "b", "cents": 2}')
    topic.flush()
    with reading(job_settings, told(topic, Tariff)):
        tariffs.becomes({"b": 2})
        tariffs.refuses({"x?": "not JSON"})
        topic.put(b"x\0", None)
        topic.put(b"b", b'{"zone": "b", "cents": 3}')
        topic.flush()
        tariffs.becomes({"b": 3})
        tariffs.refuses({})


def test_nul_in_a_reason_holds_up_nothing(
    topic: Topic, job_settings: JobSettings, tariffs: Known
) -> None:
    topic.put(b"a", b'{"zone": "a", "cents": 1, "counts": {"\\u0000": "x"}}')
    topic.put(b"b", b'{"zone": "b", "cents": 2}')
    topic.flush()
    with reading(job_settings, told(topic, CountedTariff)):
        tariffs.becomes({"b": 2})
        tariffs.refuses({"a": r"counts.\0"})


def test_json_that_only_postgresql_takes_is_refused(
    shop: Shop, shop_settings: JobSettings, prices: Known
) -> None:
    shop.do("ALTER TABLE stock.price ADD COLUMN more json")
    shop.price("cola", 150)
    shop.price("chips", 200, more=r'{"half": "\ud800"}')
    with reading(shop_settings, replace(priced(), row=None)):
        prices.becomes({"cola": 150})
        prices.refuses({"chips": "no JSON"})
        shop.price("chips", 200, more="{}")
        prices.becomes({"cola": 150, "chips": 200})
        prices.refuses({})


def test_a_row_without_a_key_is_told_for_as_long_as_it_is_there(
    shop: Shop, shop_settings: JobSettings, prices: Known
) -> None:
    ensure_topics(FLOW, shop_settings)
    shop.do("CREATE VIEW stock.keyed AS SELECT nullif(article, '-') AS article, cents, gone "
            "FROM stock.price")  # fmt: skip
    shop.do(f"GRANT SELECT ON stock.keyed TO {shop.name}")
    shop.price("-", 100)
    shop.price("cola", 150)
    its = priced(relation="stock.keyed", version=None, deleted="gone")
    with reading(shop_settings, its):
        prices.becomes({"cola": 150})
        prices.refuses({"": "a row of the source has no article"})
        for _ in range(20):  # it is compared again and again
            assert prices.refused().keys() == {""}
            time.sleep(0.05)
        eventually(lambda: said(shop_settings).get("state") == "refusing")
        shop.price("-", 100, gone=True)
        prices.refuses({})
        assert prices.cents() == {"cola": 150}


def test_a_null_that_does_not_say_which_of_the_timed_rows_is_gone_is_refused(
    topic: Topic, job_settings: JobSettings, tariffs: Known
) -> None:
    topic.put(b"north", b'{"zone": "north", "from_ms": 0, "cents": 1}')
    topic.put(b"north", None)
    topic.flush()
    with reading(job_settings, told(topic, TimedTariff, valid_from="from_ms")):
        tariffs.refuses({"north": "'from_ms'"})
        tariffs.becomes({"north@0": 1})
        topic.put(b'{"zone": "north", "from_ms": 0}', None)
        topic.flush()
        tariffs.becomes({})


def test_rows_of_a_table_that_is_timed_from_now_on_are_read_anew(
    topic: Topic, job_settings: JobSettings, tariffs: Known
) -> None:
    topic.put(b"north", b'{"zone": "north", "from_ms": 0, "cents": 1}')
    topic.flush()
    its = told(topic, TimedTariff)
    its = replace(its, source=TopicSource(topic.name, compacted=True))
    with reading(job_settings, its):
        tariffs.becomes({"north": 1})
    with reading(job_settings, replace(its, valid_from="from_ms")):
        tariffs.becomes({"north@0": 1})
