"""The whole stack as `./headrace up` runs it, each part behind proxies, and all that is needed to
hurt it and to see it well again."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx
import psycopg

from clients.postgres.grants import OWNER
from local_stack.machine.log_files import log_path
from local_stack.machine.ports import free_port
from local_stack.run.take_down import hold, release, release_all
from local_stack.servers.postgres_address import as_role
from local_stack.terminal.errors import StackError
from local_stack.verbs.ledger import from_database
from tests.end_to_end.launcher import Launcher, ancestors, parents_of_all
from tests.faults.proxy import Proxy
from tests.faults.whole import cut_network
from tests.faults.whole.fleet import Fleet
from tests.faults.whole.run_log import say
from tests.object_store import BUCKET, ObjectStore

DOORS = ("gateway", "jobs", "postgres")  # gateway to Kafka, jobs to Kafka, all to PostgreSQL
_INJECT = Path(__file__).parent / "inject"
_LOOK_EVERY_S = 0.3


class NotWellError(Exception):
    """What still was not well, and for how long."""


class Rig:
    def __init__(
        self,
        folder: Path,
        away_s: float | None = None,
        mutant: str = "",
        *,
        seen_within_s: float = 60.0,
        workers: int = 0,
        gateways: int = 1,
        stores: bool = False,
    ) -> None:
        """`stores`: checkpoints are in an object store."""
        # a mutant is not to become well
        self._well_within_s, self.seen_within_s = (60.0, 20.0) if mutant else (240.0, seen_within_s)
        self.away_s = away_s  # how long a server stays away; None: some seconds, by chance
        self.points = folder / "points"
        self.points.mkdir(parents=True, exist_ok=True)
        self._fold = folder / "fold"
        self.lies: list[str] = []  # what was wrong while it ran
        self.has_flipped = False  # a bit of a checkpoint: a job may stop for it
        self.spool_flips = 0  # bytes of the spool that were flipped while it had payloads
        self._spark_log_bytes = 0
        doors = {name: {"door": free_port(), "behind": free_port()} for name in DOORS}
        environment = {
            "HEADRACE_RIG": json.dumps(
                {
                    "doors": doors,
                    "points": str(self.points),
                    "fold": str(self._fold),
                    "mutant": mutant,
                }
            ),
            "PYTHONPATH": os.pathsep.join(
                filter(None, (str(_INJECT), os.environ.get("PYTHONPATH")))
            ),
        }
        self.launcher = Launcher(folder / "state", environment)
        if workers:
            self.launcher.arguments = ["--workers", str(workers)]
            # which have nothing of the driver's environment
            conf = {"spark.executorEnv.HEADRACE_RIG": environment["HEADRACE_RIG"]}
            self.launcher.more["HEADRACE_SPARK_CONF"] = json.dumps(conf)
        self.store = ObjectStore(folder) if stores else None
        if self.store:
            own = {"HEADRACE_CHECKPOINT_STORE": f"s3a://{BUCKET}/of/the-rig"}
            # later starts have a proxy that is nowhere, and would ask this store through it
            near = dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1")
            self.launcher.more |= {**self.store.access, **own, **near}
        self.gateways = gateways
        self.launcher.arguments += ["--gateways", str(gateways)]
        self.proxies = {
            name: Proxy(at["door"], self._behind(name, at["behind"])) for name, at in doors.items()
        }

    def _behind(self, name: str, port: int) -> Callable[[], int]:
        if name != "postgres":
            return lambda: port
        return lambda: json.loads((self.state_dir / "stack.json").read_text())["ports"]["postgres"]

    @property
    def state_dir(self) -> Path:
        return self.launcher.state_dir

    @property
    def gateway_port(self) -> int:
        return int(self.launcher.gateway_url.rpartition(":")[2])

    async def __aenter__(self) -> Self:
        for proxy in self.proxies.values():
            await proxy.start()
        if self.store:
            await asyncio.to_thread(self.store.__enter__)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.launcher.end)
        if self.store:
            self.store.kill()
        for proxy in self.proxies.values():
            await proxy.stop()

    async def start(self) -> None:
        await asyncio.to_thread(self.launcher.start)

    async def pid(self, find: Callable[[Launcher], int | None]) -> int:
        """Of a part that may just be coming back from another fault."""
        found: list[int | None] = [None]

        def is_there() -> bool:
            found[0] = find(self.launcher)
            return found[0] is not None

        await self.until(is_there, "a part is there to be hurt")
        assert found[0] is not None
        return found[0]

    async def hold_spark(self) -> None:
        self.mark_spark_log()
        await asyncio.to_thread(hold, self.state_dir, "spark")

    async def release_spark(self) -> None:
        await asyncio.to_thread(release, self.state_dir, "spark")

    def heal(self) -> None:
        """Takes back what a fault that failed has left."""
        for proxy in self.proxies.values():
            proxy.way = "pass"
        cut_network.mend()
        for point in self.points.iterdir():
            point.unlink(missing_ok=True)
        release_all(self.state_dir)

    def change_fold(self) -> None:
        """The next start takes it for another one."""
        with self._fold.open("a") as changes:
            changes.write("another ")

    def mark_spark_log(self) -> None:
        self._spark_log_bytes = log_path(self.state_dir, "spark").stat().st_size

    def spark_has_said(self, words: str) -> bool:
        """Since the log was marked, or began anew."""
        said = log_path(self.state_dir, "spark").read_bytes()
        since = self._spark_log_bytes if len(said) >= self._spark_log_bytes else 0
        return words.encode() in said[since:]

    def job_output(self, job: str) -> str:
        """Why it is not well, in its own words."""
        return str(self.launcher.status()["job_outputs"].get(job, ""))

    def stopped_jobs(self) -> list[str]:
        outputs = self.launcher.status()["job_outputs"]
        return [job for job, said in outputs.items() if str(said).startswith("failed")]

    async def mend_what_stopped(self) -> None:
        """By name, because of a flipped bit: as docs/operations.md says."""
        for job in self.stopped_jobs() if self.has_flipped else []:
            say(f"           {job} stopped: {self.job_output(job)[:130]}")
            await self.remove_checkpoint(job)

    async def remove_checkpoint(self, job: str) -> None:
        await self.hold_spark()
        shutil.rmtree(self.state_dir / "checkpoints" / job, ignore_errors=True)
        await self.release_spark()

    def spool_records(self) -> int | None:
        """Of all gateways; None where one of them tells nothing."""
        depths = [self.health(url).get("spool:depth") for url in self.gateway_urls]
        told = [int(depth[0]["observedValue"]) for depth in depths if depth]
        return sum(told) if told and len(told) == len(depths) else None

    def view_is_warm(self) -> bool:
        """Each gateway has one."""
        views = [self.health(url).get("state_view:lag") for url in self.gateway_urls]
        return bool(views) and all(view and view[0]["status"] == "pass" for view in views)

    @property
    def gateway_urls(self) -> list[str]:
        """Past the balancer."""
        return [*self.launcher.status()["gateway_urls"].values()]

    def health(self, url: str = "") -> dict[str, Any]:
        with contextlib.suppress(httpx.HTTPError, ValueError):
            url = f"{url or self.launcher.gateway_url}/health"
            answer = httpx.get(url, timeout=10, trust_env=False)
            return dict(answer.json()["checks"])
        return {}

    async def well(self, fleet: Fleet) -> None:
        """All is ready, and what was accepted only then has gone all the way."""
        await self.until(lambda: self.launcher.is_ready() or self.stopped_jobs(), "it is ready")
        await self.mend_what_stopped()
        await self.until(self.launcher.is_ready, "the stack is ready")
        known = fleet.newest_event_id
        await self.until(lambda: fleet.newest_event_id != known, "an event is accepted")
        newest = fleet.newest_event_id
        await self.until(lambda: self.is_stored(newest), "what was accepted is stored")
        await asyncio.to_thread(self.launcher.assert_no_orphan)

    def is_stored(self, event_id: str) -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            return bool(self.rows("SELECT 1 FROM headrace.event WHERE event_id = %s", event_id))
        return False

    def is_drained(self) -> bool:
        """By the product's own word: no job has anything left, and each payload has its end."""
        checks = self.health()
        jobs = [check[0] for name, check in checks.items() if name.startswith("job:")]
        with contextlib.suppress(StackError):
            now_ms = time.time_ns() // 1_000_000
            return (
                bool(jobs)
                and not any(job.get("lag_records") for job in jobs)
                and not from_database(None, None, now_ms, self.state_dir)["in_flight"]
            )
        return False

    def rows(self, query: str, *arguments: Any, role: str = OWNER) -> list[tuple[Any, ...]]:
        url = self.launcher.status()["postgres_url"]
        if url is None:
            raise psycopg.OperationalError("no stack runs")
        with psycopg.connect(as_role(url, role), connect_timeout=5) as connection:
            return connection.execute(query.encode(), arguments or None).fetchall()

    async def until(
        self, holds: Callable[[], object], what: str, within_s: float | None = None
    ) -> None:
        within_s = within_s or self._well_within_s
        began_s = time.monotonic()
        while not await asyncio.to_thread(holds):
            if time.monotonic() - began_s > within_s:
                raise NotWellError(f"not within {within_s:.0f} s: {what}")
            await asyncio.sleep(_LOOK_EVERY_S)


def tree(pid: int) -> list[int]:
    parents = parents_of_all()
    return [pid, *(other for other in parents if pid in ancestors(other, parents))]


def signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
