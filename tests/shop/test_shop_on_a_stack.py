"""The saga on a whole stack that is killed again and again, with a payment service that is slow,
fails, answers twice or never: no stock is lost or sold twice, and each order is shipped or
cancelled, with its compensation."""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import orjson
import psycopg
import pytest
from shop_quick import FLOW, WITHIN_S

from local_stack.run.stack import Stack
from tests.kafka_log import eventually, read_topic
from tests.killed import killing, post_until_accepted, shown
from tests.shop.conftest import FOLDER, QUICK
from tests.shop.oracle import expected_order, what_is_wrong
from tests.shop.outside import Outside

pytestmark = pytest.mark.stack

ORDERS = 60
SKUS = ("tea", "jam", "nut")
KILLED = ("spark", "gateway", "relay", "spark")
DEADLINES = "ingest.take_payment_deadline.v1"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = {"HEADRACE_FLOW": "shop_quick:FLOW", "PYTHONPATH": f"{FOLDER}:{QUICK}"}
    folder = tmp_path_factory.mktemp("shop")
    with Stack(folder, random_ports=True, settings=settings) as stack:
        yield stack


def test_no_stock_is_lost_or_sold_twice_and_each_order_ends(stack: Stack) -> None:
    orders = {f"o-{n}": random.Random(n) for n in range(ORDERS)}
    delivered: dict[str, int] = defaultdict(int)
    for sku, chance in zip(SKUS, (random.Random(sku) for sku in SKUS), strict=True):
        delivered[sku] = chance.randint(25, 40)
        said = {"quantity": delivered[sku], "price": 10}
        post_until_accepted(stack, f"/v1/delivery/{sku}", orjson.dumps(said), f"delivery-{sku}")

    def place(order: str) -> None:
        chance = orders[order]
        time.sleep(chance.uniform(0, 28))
        said = {"customer": "c", "sku": chance.choice(SKUS), "quantity": chance.randint(1, 4)}
        for _ in range(chance.choice([1, 1, 2])):
            post_until_accepted(stack, f"/v1/order/{order}", orjson.dumps(said), f"{order}-placed")

    def state(kind: str, its_id: str) -> Any:
        return shown(stack, kind, its_id) or {}

    def wrong() -> list[str]:
        states = [state("order", order) for order in orders]
        if not all(states):
            return ["some are unknown"]
        stocks = {sku: state("stock", sku) for sku in SKUS}
        return what_is_wrong(delivered, stocks, states, outside.taken, outside.refunded)

    with Outside(stack, late_s=(WITHIN_S * 0.8, WITHIN_S * 3)) as outside:
        with killing(stack, KILLED, every_s=8), ThreadPoolExecutor(ORDERS) as pool:
            list(pool.map(place, orders))
            time.sleep(8)
        with suppress(AssertionError):
            eventually(lambda: outside.rests and not wrong(), within_s=360, every_s=2)
        assert wrong() == []

    states = [state("order", order) for order in orders]
    logs: dict[str, dict[str, tuple[str, Any]]] = defaultdict(dict)
    for record in read_topic(stack.kafka_bootstrap, "event.orders.v1"):
        event = orjson.loads(record.value or b"")
        logs[event["entity_id"]].setdefault(event["id"], (event["type"], event["data"]))
    for order in states:
        assert order == expected_order(order["order"], logs[order["order"]].values())
    ends = Counter((order["status"], order["why"]) for order in states)
    assert {("shipped", None), ("cancelled", "no payment in time")} <= {*ends}, ends

    # nothing is parked, nobody can post a time-out, and the ledger closes
    for lane in ("dlq.enrich.v1", "dlq.fold.v1"):
        assert read_topic(stack.kafka_bootstrap, lane) == []
    answer = httpx.post(f"{stack.gateway_url}/v1/take_payment_deadline/o-1", content=b"{}")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_endpoint")
    asked = {record.key for record in read_topic(stack.kafka_bootstrap, DEADLINES)}
    assert len(asked) == len(outside.manner)

    with psycopg.connect(stack.postgres_url, autocommit=True) as connection:

        def open_in_the_ledger() -> Any:
            return connection.execute(
                b"SELECT topic, sum(difference)::int, "
                b"sum(ends - begins - stored - duplicate - late_duplicate - dropped)::int "
                b"FROM headrace.ledger_partition WHERE of_payloads GROUP BY topic ORDER BY topic"
            ).fetchall()

        closed = [(topic, 0, 0) for topic in sorted(FLOW.ingest_topics)]
        eventually(lambda: open_in_the_ledger() == closed, within_s=240)
        (timed_out,) = connection.execute(
            b"SELECT count(*) FROM headrace.event WHERE type = 'take_payment_timed_out'"
        ).fetchone() or (None,)
    once = [kind for log in logs.values() for kind, _ in log.values()]
    assert timed_out == once.count("take_payment_timed_out")
