"""A stack of its own under a load that is known: what each part used for it."""

import http.client
import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Self

from local_stack.measuring import usage
from local_stack.measuring.samples import Load, Sample
from local_stack.plan.parts import JOBS
from local_stack.run.health import ask
from local_stack.run.stack import Stack
from local_stack.terminal.errors import StackError
from shared.machine.process_tree import tree

_FLOW = "local_stack.measuring.measured_flow:FLOW"
_PARTS = ("kafka", "postgres", "gateway", *JOBS, "relay")
_FRAMES = {"content-type": "application/vnd.headrace.frames"}
_LOOKS_EVERY_S = 0.5
_GIVES_UP_S = 300.0
_VIEW = "gateway.state_view.writer"
_SETTLES_S = 1.0  # what the view and the ledger do after the last row
_COUNTS = """SELECT (SELECT count(*) FROM headrace.event), (SELECT count(*) FROM headrace.outbox)"""
_SIZES = """SELECT pg_total_relation_size('headrace.event'),
    (SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r'
     AND relnamespace = 'headrace'::regnamespace AND relname IN ('state', 'entity_state'))"""


class Rig:
    """Each job has a process of its own, so that its use is its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._posted = 0
        self._chance = random.Random(7)
        self._stack = Stack(
            folder, random_ports=True, services=_PARTS, settings={"HEADRACE_FLOW": _FLOW}
        )

    def __enter__(self) -> Self:
        self._stack.start()
        self.wait_until(self._jobs_are_up)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.stop()

    def pids(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for name in _PARTS:
            pid = self._stack.pid(name)
            found[name] = tree(pid) if pid else []
        views = [pid for pid in found["gateway"] if _VIEW in usage.command(pid)]
        found["gateway"] = [pid for pid in found["gateway"] if pid not in views]
        found["view"] = views
        return found

    def cpu_s(self) -> dict[str, float]:
        return {part: usage.cpu_of(pids) for part, pids in self.pids().items()}

    def memory_mib(self) -> dict[str, float]:
        return {part: usage.memory_of(pids) for part, pids in self.pids().items()}

    def run(self, load: Load) -> Sample:
        """Until the last row is in PostgreSQL and has been told."""
        before, batches, began_s = self.cpu_s(), self._batches(), time.monotonic()
        self.post(load)
        posted_s = time.monotonic() - began_s
        self.wait_until_drained()
        time.sleep(_SETTLES_S)
        took_s = time.monotonic() - began_s
        after = self.cpu_s()
        return Sample(
            load,
            posted_s=posted_s,
            seconds=took_s,
            batches={job: count - batches[job] for job, count in self._batches().items()},
            cpu_s={part: after[part] - before[part] for part in after},
            memory_mib=self.memory_mib(),
        )

    def rest(self, seconds: float) -> dict[str, float]:
        """CPU seconds that each part uses in a second without any load."""
        before = self.cpu_s()
        time.sleep(seconds)
        return {part: (used - before[part]) / seconds for part, used in self.cpu_s().items()}

    def post(self, load: Load) -> None:
        """Posts by so many clients at a time, each on a connection of its own."""
        posts, lock = self._posts(load), threading.Lock()
        with ThreadPoolExecutor(load.clients) as pool:
            sent = [pool.submit(self._post, posts, lock, load) for _ in range(load.clients)]
            for one in sent:
                one.result()
        self._posted += load.events

    def _post(
        self, posts: Iterator[list[tuple[str, bytes]]], lock: threading.Lock, load: Load
    ) -> None:
        host = self._stack.gateway_url.removeprefix("http://")
        began_s, sent = time.monotonic(), 0
        with closing(http.client.HTTPConnection(host, timeout=60)) as connection:
            while True:
                with lock:
                    batch = next(posts, None)
                if batch is None:
                    return
                if load.per_s:
                    time.sleep(max(0.0, began_s + sent / load.per_s - time.monotonic()))
                _send(connection, batch, single=load.per_post == 1)
                sent += len(batch)

    def _posts(self, load: Load) -> Iterator[list[tuple[str, bytes]]]:
        bodies = self._bodies(load)
        while batch := list(itertools.islice(bodies, load.per_post)):
            yield batch

    def _bodies(self, load: Load) -> Iterator[tuple[str, bytes]]:
        """Bodies of a size, with what packs as real texts do: to about a half."""
        for number in range(load.events):
            body = {"value": self._chance.randrange(1000), "note": ""}
            room = load.body_bytes - len(json.dumps(body))
            body["note"] = self._chance.randbytes(max(0, room + 1) // 2).hex()[: max(0, room)]
            yield f"{load.name}-{number % load.entities}", json.dumps(body).encode()

    def hold(self, *parts: str) -> None:
        for part in parts:
            self._stack.hold(part)
        self.wait_until(lambda: not any(self._stack.pid(part) for part in parts))

    def release(self, *parts: str) -> None:
        for part in parts:
            self._stack.release(part)

    def wait_until_drained(self) -> None:
        self.wait_until(self._is_drained)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + _GIVES_UP_S
        while not holds():
            if time.monotonic() > deadline_s:
                logs = self._folder / "logs"
                raise StackError(
                    f"the load was not worked off within {_GIVES_UP_S:.0f} s", f"read {logs}"
                )
            time.sleep(_LOOKS_EVERY_S)

    def stored_bytes(self) -> dict[str, int]:
        """On disk, by what it is."""
        logs = self._folder / "kafka"
        found = {
            kind: usage.bytes_in(logs.rglob(f"{kind}.*/*.log"))
            for kind in ("ingest", "event", "state", "completion")
        }
        found["view"] = usage.bytes_in((self._folder / "view").iterdir())
        found["checkpoint"] = usage.bytes_in((self._folder / "checkpoints" / "fold").rglob("*"))
        found["event_rows"], found["state_rows"] = self._ask(_SIZES)
        return found

    def _is_drained(self) -> bool:
        events, outbox = self._ask(_COUNTS)
        if events < self._posted or outbox:
            return False
        _, health = ask(f"{self._stack.gateway_url}/health")
        checks = (health or {}).get("checks", {})
        return not any((checks.get(f"job:{job}") or [{}])[0].get("lag_records") for job in JOBS)

    def _ask(self, query: str) -> tuple[int, ...]:
        import psycopg

        with psycopg.connect(self._stack.postgres_url) as connection:
            row = connection.execute(query).fetchone()
        return tuple(int(number or 0) for number in row or ())

    def _jobs_are_up(self) -> bool:
        _, health = ask(f"{self._stack.gateway_url}/health")
        checks = (health or {}).get("checks", {})
        return all((checks.get(f"job:{job}") or [{}])[0].get("status") == "pass" for job in JOBS)

    def _batches(self) -> dict[str, int]:
        """How many each job has planned, by its checkpoint."""
        found = dict.fromkeys(JOBS, 0)
        for job in JOBS:
            with suppress(OSError):
                names = (self._folder / "checkpoints" / job / "offsets").iterdir()
                found[job] = max((int(one.name) for one in names if one.name.isdigit()), default=0)
        return found


def _send(
    connection: http.client.HTTPConnection, batch: list[tuple[str, bytes]], *, single: bool
) -> None:
    if single:
        ((entity, body),) = batch
        connection.request("POST", f"/v1/plan/{entity}", body)
    else:
        framed = b"".join(b"%b %d\n%b\n" % (e.encode(), len(b), b) for e, b in batch)
        connection.request("POST", "/v1/plan", framed, _FRAMES)
    answer = connection.getresponse()
    said = answer.read()
    if answer.status not in (202, 207):
        raise StackError(f"the gateway refused the load: {said[:200]!r}", "try it again")
