"""Four endpoints of one stream on a whole stack that is killed again and again: each order is what
the order of acceptance makes of it."""

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import psycopg
import pytest

from local_stack.run.stack import Stack
from tests.kafka_log import eventually
from tests.killed import killing, post_until_accepted, wait_for_states
from tests.orders.conftest import FOLDER
from tests.orders.oracle import expected_order

pytestmark = [pytest.mark.stack, pytest.mark.long]

ORDERS = 40
POSTS = 12
KILLED = ("spark", "gateway", "relay", "spark")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = {"HEADRACE_FLOW": "orders:FLOW", "PYTHONPATH": str(FOLDER)}
    folder = tmp_path_factory.mktemp("orders")
    with Stack(folder, random_ports=True, settings=settings) as stack:
        yield stack


def _posts(chance: random.Random) -> list[tuple[str, dict[str, Any]]]:
    """Mostly in a sensible order, and now and then not."""
    posts: list[tuple[str, dict[str, Any]]] = [("order", {"customer": f"c-{chance.random()}"})]
    for _ in range(POSTS - 1):
        line = {"sku": chance.choice("abc"), "quantity": chance.randint(1, 9)}
        end = ("payment", {"amount": chance.randint(0, 99)})
        other = ("cancellation", {"reason": f"r-{chance.random()}"})
        posts.append(chance.choice([("line", line)] * 6 + [end, other, posts[0]]))
    if chance.random() < 0.3:
        posts[0], posts[1] = posts[1], posts[0]
    return posts


def test_orders_are_what_was_accepted_first_makes_of_them_through_kills(stack: Stack) -> None:
    histories = {f"o-{n}": _posts(random.Random(n)) for n in range(ORDERS)}

    def live(order: str) -> list[str]:
        chance, ids = random.Random(order), []
        for number, (endpoint, said) in enumerate(histories[order]):
            path, key = f"/v1/{endpoint}/{order}", f"{order}-{number}"
            ids.append(post_until_accepted(stack, path, orjson.dumps(said), key))
            time.sleep(chance.uniform(0, 5))
        return ids

    with killing(stack, KILLED, every_s=7), ThreadPoolExecutor(ORDERS) as pool:
        ids = {one for own in pool.map(live, histories) for one in own}

    expected = {("order", o): expected_order(o, posts) for o, posts in histories.items()}
    wait_for_states(stack, expected)

    def rows() -> set[str]:
        with psycopg.connect(stack.postgres_url) as connection:
            return {row[0] for row in connection.execute("SELECT event_id FROM headrace.event")}

    eventually(lambda: rows() == ids, within_s=240)
