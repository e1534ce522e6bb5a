"""Four endpoints of one stream on a whole stack that is killed again and again: each order is what
the order of acceptance makes of it."""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest

from local_stack.run.stack import Stack
from tests.end_to_end.launcher import descendants
from tests.kafka_log import eventually
from tests.orders.conftest import FOLDER
from tests.orders.oracle import expected_order

pytestmark = pytest.mark.stack

ORDERS = 40
POSTS = 12
KILLED = ("spark", "gateway", "spark", "relay", "gateway", "spark")


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


def _post(stack: Stack, order: str, number: int, endpoint: str, said: dict[str, Any]) -> str:
    """Until it has its receipt: so the next one is accepted after it."""
    headers = {"Idempotency-Key": f"{order}-{number}"}
    for _ in range(600):
        try:
            url = f"{stack.gateway_url}/v1/{endpoint}/{order}"
            answer = httpx.post(url, json=said, headers=headers, timeout=10)
            if answer.status_code == 202:
                return str(answer.json()["id"])
            assert answer.status_code >= 500, answer.text
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise AssertionError("not accepted within two minutes")


def _kill(stack: Stack, name: str) -> None:
    pid = stack.pid(name)
    if pid is None:
        return
    for one in [*descendants(pid), pid]:
        try:
            os.kill(one, signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_orders_are_what_was_accepted_first_makes_of_them_through_kills(stack: Stack) -> None:
    histories = {f"o-{n}": _posts(random.Random(n)) for n in range(ORDERS)}
    over = threading.Event()

    def live(order: str) -> list[str]:
        chance, ids = random.Random(order), []
        for number, (endpoint, said) in enumerate(histories[order]):
            ids.append(_post(stack, order, number, endpoint, said))
            time.sleep(chance.uniform(0, 8))
        return ids

    def kill_now_and_then() -> None:
        for name in KILLED:
            if over.wait(7):
                return
            _kill(stack, name)

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    with ThreadPoolExecutor(ORDERS) as pool:
        ids = dict(zip(histories, pool.map(live, histories), strict=True))
    over.set()
    killer.join()

    expected = {order: expected_order(order, posts) for order, posts in histories.items()}

    def shown(order: str) -> Any:
        try:
            answer = httpx.get(f"{stack.gateway_url}/state/order/{order}", timeout=10)
        except httpx.TransportError:
            return None
        return answer.json().get("state") if answer.status_code == 200 else None

    wrong: dict[str, Any] = {}

    def all_are_right() -> bool:
        wrong.clear()
        wrong.update(
            {order: found for order in expected if (found := shown(order)) != expected[order]}
        )
        return not wrong

    try:
        eventually(all_are_right, within_s=240)
    except AssertionError as error:
        some = next(iter(wrong))
        raise AssertionError(f"{len(wrong)} wrong: {wrong[some]}, not {expected[some]}") from error

    def rows() -> set[str]:
        with psycopg.connect(stack.postgres_url) as connection:
            return {row[0] for row in connection.execute("SELECT event_id FROM headrace.event")}

    eventually(lambda: rows() == {one for own in ids.values() for one in own}, within_s=120)
