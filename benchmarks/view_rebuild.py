"""How much a view that is made anew from a long log delays the one that people look at.

    python -m benchmarks.view_rebuild --events 10000000 --per-s 2000 [--for-s 60]

Real broker, real process (`python -m stream_jobs views`). A view of the highest bid and the number
of bids of each bidder is made from the log; then bids go on at a steady rate, and some of them,
each higher than all before, are watched until the view's topic has them. The same again while the
next version of that view, beside it in the same process, is made from the first bid on.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import quantiles

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.nexmark_flow import FLOW
from benchmarks.processes import resident_mib
from benchmarks.view_rate import committed
from clients.kafka.create_topics import ensure_topics
from local_stack.machine.job_environment import job_environment
from local_stack.run.stack import Stack
from shared.ids import fresh_event_id
from shared.model import View
from shared.settings import JobSettings

_SQL = "SELECT entity_id AS bidder, count(*) AS bids, max(price) AS price FROM bid GROUP BY ALL"
_LIVE = View("highest", ("bid",), _SQL, ("bidder",), late_after_s=20.0)
_NEXT = replace(_LIVE, name="highest_anew")
LIVE, BOTH = (replace(FLOW, views=views) for views in ((_LIVE,), (_LIVE, _NEXT)))

_BIDDERS, _WATCHED = 100_000, "watched"
_WATCH_EVERY_S = 0.1
# once it is made a view forgets the ids of what came at the log's end, a million or two, at once
_FORGETS_WITHIN_S = 45
_TIMEOUT_S = 1_800


class Bids:
    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 5,
                "partitioner": "murmur2_random",
                "compression.type": "zstd",
                "queue.buffering.max.messages": 500_000,
            }
        )
        self._dice = random.Random(11)
        self.sent = 0

    def send(self, bidder: str, price: int) -> None:
        self.sent += 1
        value = (
            '{"id":"%s","type":"bid","entity_id":"%s","time_ms":%d,"arrived_ms":%d,'
            '"origin":["ingest.nexmark.v1",0,%d],"data":{"auction":"auction-%d","price":%d,'
            '"channel":"Google","url":"https://example.org/x"}}'
        )
        now_ms = time.time_ns() // 1_000_000
        filled = value % (fresh_event_id(), bidder, now_ms, now_ms, self.sent, self.sent, price)
        while True:
            try:
                self._producer.produce("event.bid.v1", filled, bidder)
                break
            except BufferError:
                self._producer.poll(0.05)
        self._producer.poll(0)

    def send_any(self) -> None:
        self.send(f"person-{self._dice.randrange(_BIDDERS)}", self._dice.randrange(1_000_000))

    def flush(self) -> None:
        assert self._producer.flush(120) == 0


class Watch:
    """When a bid was sent, and when the view's topic had it."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "watch", "enable.auto.commit": False}
        )
        known = self._consumer.list_topics(_LIVE.topic, 30).topics[_LIVE.topic].partitions
        ends = [
            self._consumer.get_watermark_offsets(TopicPartition(_LIVE.topic, one), 30)[1]
            for one in known
        ]
        places = zip(known, ends, strict=True)
        self._consumer.assign([TopicPartition(_LIVE.topic, one, end) for one, end in places])
        self.sent: dict[int, float] = {}
        self.waited_s: dict[float, float] = {}  # by when it was sent
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        while True:
            for message in self._consumer.consume(10_000, 0.02):
                if message.key() == b'{"bidder":"%s"}' % _WATCHED.encode():
                    seen_s, price = time.time(), json.loads(message.value() or b"{}")["price"]
                    for its in [its for its in self.sent if its <= price]:
                        sent_s = self.sent.pop(its)
                        self.waited_s[sent_s] = seen_s - sent_s

    def waited(self, since_s: float, until_s: float) -> list[float]:
        return [took for sent_s, took in self.waited_s.items() if since_s <= sent_s < until_s]


class Trickle:
    def __init__(self, bids: Bids, watch: Watch, per_s: float) -> None:
        self._bids, self._watch, self._per_s = bids, watch, per_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        began_s, price = time.time(), 10**9
        sent = watched = 0
        while not self._end.wait(0.005):
            now_s = time.time()
            while sent < (now_s - began_s) * self._per_s:
                self._bids.send_any()
                sent += 1
            if watched < (now_s - began_s) / _WATCH_EVERY_S:
                watched, price = watched + 1, price + 1
                self._watch.sent[price] = now_s
                self._bids.send(_WATCHED, price)

    def __enter__(self) -> "Trickle":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


@contextmanager
def views_of(
    flow: str, environment: Mapping[str, str], log: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "stream_jobs", "views"],
            env={**os.environ, **environment, "HEADRACE_FLOW": f"benchmarks.view_rebuild:{flow}"},
            stdout=file, stderr=file, start_new_session=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def until_read(folder: Path, view: View, records: int, process: "subprocess.Popen[bytes]") -> None:
    began_s = time.time()
    while (committed(folder / "checkpoints" / view.job) or (0.0, 0))[1] < records:
        if process.poll() is not None or time.time() - began_s > _TIMEOUT_S:
            sys.exit(f"{view.name} was not made")
        time.sleep(0.2)


def told(waited_s: list[float]) -> dict[str, float]:
    cuts = quantiles(waited_s, n=100)
    p50_s, p99_s, worst_s = (round(one, 2) for one in (cuts[49], cuts[98], max(waited_s)))
    return {"watched": len(waited_s), "p50_s": p50_s, "p99_s": p99_s, "worst_s": worst_s}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--per-s", type=float, default=2_000)
    parser.add_argument("--for-s", type=float, default=60)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        with Stack(folder / "kafka", random_ports=True, services=("kafka",)) as stack:
            settings = JobSettings(kafka_bootstrap=stack.kafka_bootstrap, state_dir=folder)
            ensure_topics(BOTH, settings)
            environment = {
                **job_environment(),
                "HEADRACE_KAFKA_BOOTSTRAP": stack.kafka_bootstrap,
                "HEADRACE_STATE_DIR": str(folder),
            }
            bids = Bids(stack.kafka_bootstrap)
            for _ in range(asked.events):
                bids.send_any()
            bids.flush()
            watch, log = Watch(stack.kafka_bootstrap), folder / "views.log"
            with views_of("LIVE", environment, log) as process:
                began_s = time.time()
                until_read(folder, _LIVE, asked.events, process)
                print(json.dumps({"alone_made_in_s": round(time.time() - began_s, 1)}), flush=True)
                with Trickle(bids, watch, asked.per_s):
                    time.sleep(_FORGETS_WITHIN_S)
                    since_s = time.time()
                    time.sleep(asked.for_s)
                    until_s = time.time()
                    time.sleep(5)
                    alone = told(watch.waited(since_s, until_s))
                    mib = resident_mib(process.pid)
                    print(json.dumps({"alone": alone, "resident_mib": mib}), flush=True)
            with Trickle(bids, watch, asked.per_s), views_of("BOTH", environment, log) as process:
                began_s = time.time()
                until_read(folder, _LIVE, bids.sent, process)
                time.sleep(10)
                since_s = time.time()
                until_read(folder, _NEXT, asked.events, process)
                made_s = time.time()
                time.sleep(_FORGETS_WITHIN_S)
                until_s = time.time()
                time.sleep(5)
                beside = told(watch.waited(since_s, until_s))
                mib = resident_mib(process.pid)
                took_s = round(made_s - began_s, 1)
                said = {"beside": beside, "resident_mib": mib, "made_anew_in_s": took_s}
                said["p99_ratio"] = round(beside["p99_s"] / alone["p99_s"], 2)
                print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
