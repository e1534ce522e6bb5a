"""Somebody else's code, played: consumers that take payments and ship, and post what came of it.

They commit after they are done, so they are asked at least once. They are slow, fail, answer twice
and sometimes never; who takes payments takes one once for each question, however often it is asked.
"""

import random
import threading
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
from confluent_kafka import Consumer

from local_stack.run.stack import Stack
from tests.killed import post_until_accepted

MANNERS = ("pays", "pays", "pays late", "pays twice", "fails", "never", "two payments")


class Outside:
    def __init__(self, stack: Stack, late_s: tuple[float, float]) -> None:
        self.taken: dict[str, list[str]] = defaultdict(list)
        self.refunded: set[str] = set()
        self.manner: dict[str, str] = {}
        self._stack, self._late_s = stack, late_s
        self._stop = threading.Event()
        self._under_way = 0
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(64)
        self._threads = [
            threading.Thread(target=self._serve, args=row)
            for row in (
                (
                    "payments",
                    {"event.payment_asked.v1": self._pay, "event.refund_asked.v1": self._refund},
                ),
                ("warehouse", {"completion.shipping_asked.v1": self._ship}),
            )
        ]

    def __enter__(self) -> "Outside":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._pool.shutdown()

    @property
    def rests(self) -> bool:
        return self._under_way == 0

    def _serve(self, group: str, carries_out: Mapping[str, Any]) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._stack.kafka_bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([*carries_out])
        while not self._stop.is_set():
            message = consumer.poll(0.2)
            if message is None or message.error():
                continue
            headers = dict(message.headers() or ())
            asked = headers["ce_id"].decode()
            value = orjson.loads(message.value() or b"")
            topic = str(message.topic())
            if topic.startswith("completion."):
                asked = value["event_id"]
            carries_out[topic]((message.key() or b"").decode(), asked, value.get("data"))
            consumer.commit(message)
        consumer.close()

    def _pay(self, order: str, asked: str, _data: Any) -> None:
        if order in self.manner:
            return  # asked again
        chance = random.Random(asked)
        self.manner[order] = manner = chance.choice(MANNERS)
        soon, late = chance.uniform(0, 3), chance.uniform(*self._late_s)
        paid, second = f"pay-{asked}", f"pay-2-{asked}"
        answers: list[tuple[float, str | None]] = {
            "pays": [(soon, paid)],
            "pays late": [(late, paid)],
            "pays twice": [(soon, paid), (late, paid)],
            "fails": [(soon, None)],
            "never": [],
            "two payments": [(soon, paid), (late, second)],
        }[manner]
        for number, (after_s, payment) in enumerate(answers):
            if payment and payment not in self.taken[order]:
                self.taken[order].append(payment)
            said = {"asked": asked, "payment": payment, "why": None if payment else "no money"}
            self._answer(after_s, f"/v1/payment/{order}", said, f"{asked}-{number}")

    def _refund(self, order: str, asked: str, data: Any) -> None:
        self.refunded.add(data["payment"])
        said = {"asked": asked, "payment": data["payment"]}
        self._answer(0.5, f"/v1/refund/{order}", said, asked)

    def _ship(self, order: str, asked: str, _data: Any) -> None:
        self._answer(0.5, f"/v1/shipment/{order}", {"asked": asked}, asked)

    def _answer(self, after_s: float, path: str, said: dict[str, Any], key: str) -> None:
        with self._lock:
            self._under_way += 1

        def post() -> None:
            try:
                self._stop.wait(after_s)
                post_until_accepted(self._stack, path, orjson.dumps(said), key)
            finally:
                with self._lock:
                    self._under_way -= 1

        self._pool.submit(post)
