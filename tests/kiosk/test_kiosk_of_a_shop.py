"""Prices that a shop keeps in its own database, on a whole stack: sales wait for them, take the one
of their time, and go on with the last known ones while the shop is away."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import orjson
import pytest

from local_stack.run.stack import Stack
from tests.kafka_log import eventually, read_topic
from tests.killed import killing, post_until_accepted, wait_for_states
from tests.kiosk.conftest import FOLDER
from tests.stream_jobs.master_sources.conftest import Shop

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def shop(parts: Stack) -> Iterator[Shop]:
    shop = Shop(parts)
    shop.do("""CREATE TABLE stock.rate (
        article text, from_ms bigint, cents int, updated_at timestamptz DEFAULT now(),
        PRIMARY KEY (article, from_ms)
    )""")
    shop.do(f"GRANT SELECT ON stock.rate TO {shop.name}")
    yield shop
    shop.db.close()


@pytest.fixture(scope="module")
def stack(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = {
        "HEADRACE_FLOW": "tests.kiosk.kiosk_of_a_shop:FLOW",
        "PYTHONPATH": str(FOLDER),
        "HEADRACE_MASTER_DATABASES": orjson.dumps({"shop": shop.reader_url}).decode(),
    }
    folder = tmp_path_factory.mktemp("kiosk")
    with Stack(folder, random_ports=True, settings=settings) as stack:
        yield stack


def health(stack: Stack) -> Any:
    checks = httpx.get(f"{stack.gateway_url}/health", timeout=10).json()["checks"]
    return checks["source:price"][0]


def set_price(shop: Shop, article: str, cents: int, from_ms: int = 0) -> None:
    shop.do("INSERT INTO stock.rate VALUES (%s, %s, %s)", article, from_ms, cents)


def known_prices(stack: Stack) -> dict[str, int]:
    last = {r.key: r.value for r in read_topic(stack.kafka_bootstrap, "master.price.v1")}
    del last[b"_relay"]
    return {(key or b"").decode(): orjson.loads(row or b"")["cents"] for key, row in last.items()}


def sell(stack: Stack, kiosk: str, number: int, article: str) -> None:
    body = b'{"article": "%s", "count": 1}' % article.encode()
    post_until_accepted(stack, f"/v1/sale/{kiosk}", body, f"{kiosk}-{number}")


def sold(kiosk: str, cents: int, *articles: str) -> dict[tuple[str, str], object]:
    return {("kiosk", kiosk): {"kiosk": kiosk, "cents": cents, "articles": [*articles]}}


def test_a_sale_waits_for_the_shop_and_goes_on_without_it(stack: Stack, shop: Shop) -> None:
    set_price(shop, "water", 100)
    sell(stack, "k-1", 0, "water")
    wait_for_states(stack, sold("k-1", 100, "water"))
    sell(stack, "k-1", 1, "cola")
    sell(stack, "k-1", 2, "water")
    eventually(lambda: any(r.value for r in read_topic(stack.kafka_bootstrap, "gate.enrich.v1")))
    with killing(stack, ("relay", "spark", "relay"), every_s=2):
        set_price(shop, "cola", 150)
        wait_for_states(stack, sold("k-1", 350, "water", "cola", "water"))

    def is_well() -> bool:
        """In one look: what was said before the last kill may grow too old between two."""
        check = health(stack)
        return check["status"] == "pass" and "its rows are as of" in check["output"]

    eventually(is_well, 120)
    shop.close_to_all()
    eventually(lambda: "waiting: stock.rate in shop" in health(stack).get("output", ""), 120)
    sell(stack, "k-2", 0, "cola")
    wait_for_states(stack, sold("k-2", 150, "cola"))
    eventually(lambda: health(stack)["observedValue"] > 0, 60)
    set_price(shop, "tea", 90)
    shop.open_again()
    eventually(lambda: health(stack)["status"] == "pass", 120)
    eventually(lambda: known_prices(stack).get("tea@0") == 90, 120)
    # only now: on a slow machine it takes a while until the shop is read again
    begins_ms = time.time_ns() // 1_000_000 + 20_000
    set_price(shop, "cola", 175, begins_ms)
    eventually(lambda: known_prices(stack).get(f"cola@{begins_ms}") == 175, 60)
    sell(stack, "k-2", 1, "cola")
    sold_in_time = time.time_ns() // 1_000_000 < begins_ms
    time.sleep(max(0, begins_ms / 1000 - time.time()) + 1)
    sell(stack, "k-2", 2, "cola")
    assert sold_in_time
    wait_for_states(stack, sold("k-2", 475, "cola", "cola", "cola"))
    assert read_topic(stack.kafka_bootstrap, "dlq.enrich.v1") == []
