"""The whole local stack as one object: what `up` runs in front of you and what tests start.

with Stack(state_dir, random_ports=True, services=("kafka", "postgres")) as stack:
    use(stack.kafka_bootstrap, stack.postgres_url)
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Self

from clients.postgres.grants import READER
from local_stack.machine.class_archives import ClassArchives
from local_stack.machine.downloads import Downloads, fetch_downloads
from local_stack.machine.java import Java, find_java
from local_stack.machine.locks import InstanceLock
from local_stack.machine.log_files import log_path
from local_stack.machine.paths import state_dir as default_state_dir
from local_stack.machine.ports import free_port
from local_stack.machine.processes import Supervisor
from local_stack.run.applications import Applications
from local_stack.run.folder_flow import flow_reference, refuse_another_flow
from local_stack.run.health import GatewayHealth, ask_gateways
from local_stack.run.last_run import wait_for_the_last_run
from local_stack.run.operator_token import (
    forget_operator_token,
    operator_token,
    renew_operator_token,
)
from local_stack.run.part_environment import part_environment
from local_stack.run.stack_file import write_status
from local_stack.run.take_down import hold, release, release_all
from local_stack.servers.addresses import OWN_SERVER, Addresses, wait_for_own
from local_stack.servers.gateways import FIRST, left_behind, names_of
from local_stack.servers.kafka import kafka_answers, prepare_kafka
from local_stack.servers.postgres import postgres_answers, prepare_database, prepare_postgres
from local_stack.servers.postgres_address import SUPERUSER
from local_stack.servers.spark_cluster import SparkCluster, refuse_another_master
from local_stack.terminal.errors import StackError
from local_stack.terminal.progress import say

ALL_SERVICES = ("kafka", "postgres", "gateway", "spark", "relay", "desk")
DEATHS_TO_GIVE_UP = 3
_SETTLED = ("pass", "paused")  # what a job may be that `up` need not wait for
_START_WITHIN_S = 300.0


class Stack:
    """Runs the named services until `stop`; an existing server given by setting is used instead."""

    def __init__(
        self,
        state_dir: Path | None = None,
        *,
        random_ports: bool = False,
        services: Collection[str] = ALL_SERVICES,
        settings: Mapping[str, str] | None = None,
        workers: int = 0,
        gateways: int = 1,
    ) -> None:
        """`services` may name jobs, too: each has a process of its own, in place of all in `spark`.
        `workers`: of a Spark cluster for the jobs; without any, Spark runs in their process.
        `gateways`: several are each a node of its own, behind a balancer."""
        self.state_dir = (state_dir or default_state_dir()).absolute()
        self.jobs: dict[str, str] = {}
        self.cluster_settings: Mapping[str, str] = {}  # by which jobs find its Spark cluster
        self.ready = self.is_to_stop = False
        self._settings = {**os.environ, **(settings or {})}
        self._services, self._workers = services, workers
        self._gateways = gateways if FIRST in services else 0
        refuse_another_master(workers, self._settings)
        self._addresses = Addresses(self.state_dir, self._settings, services)
        self._random_ports = random_ports
        self._lock = InstanceLock(self.state_dir)
        self._publishing = threading.Lock()
        self._supervisor = Supervisor(self.state_dir, say)
        self._supervisor.on_change = self._publish

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def gateway_url(self) -> str:
        return self._addresses.gateway_url

    @property
    def gateway_urls(self) -> Mapping[str, str]:
        """The address of each gateway, past the balancer."""
        return self._addresses.gateway_urls if self._gateways else {}

    @property
    def desk_url(self) -> str | None:
        return self._addresses.desk_url

    @property
    def kafka_bootstrap(self) -> str:
        return self._addresses.kafka_bootstrap

    @property
    def postgres_url(self) -> str:
        """As superuser: for who has the stack as an object. Nothing that it runs knows it."""
        return self.postgres_url_of(SUPERUSER)

    def postgres_url_of(self, role: str) -> str:
        url = self._addresses.postgres_url(role)
        if url is None:
            raise StackError("this stack has no database", "start it with the service postgres")
        return url

    @property
    def ports(self) -> Mapping[str, int]:
        return self._addresses.ports

    def pid(self, name: str) -> int | None:
        return self._supervisor.children[name].pid

    def hold(self, name: str) -> None:
        hold(self.state_dir, name)

    def release(self, name: str) -> None:
        release(self.state_dir, name)

    def reserve(self) -> None:
        """Makes the state folder ours until `stop`; asking again does no harm."""
        other = self._lock.acquire()
        if other is not None:
            raise StackError(
                f"a stack already runs on {self.state_dir} (pid {other})",
                "use it, stop it with `./headrace stop`, or choose another --state-dir",
            )

    def start(self) -> None:
        self.reserve()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self.ready = False
        self._supervisor.stop()
        if self.ports:
            self._publish()
        self._lock.release()

    def kill(self) -> None:
        self._supervisor.kill_all()

    def _start(self) -> None:
        if "spark" in self._services:
            refuse_another_flow(self.state_dir, self._settings)
        wait_for_the_last_run(self.state_dir)
        self._addresses.choose_ports(say, random_ports=self._random_ports)
        if self._gateways > 1:
            self._addresses.put_balancer(names_of(self._gateways))
        self._publish()  # nothing of the last run counts from here on
        release_all(self.state_dir)
        java = find_java()
        downloads = fetch_downloads(java)
        deadline = time.monotonic() + _START_WITHIN_S
        # Kafka takes seconds to come up; PostgreSQL and its tables are ready before it.
        self._start_kafka(java, downloads)
        self._start_postgres(downloads, deadline)
        environment = part_environment(
            self._settings, self._addresses, self.state_dir, java, downloads
        )
        if self._workers:
            self.cluster_settings = self._start_cluster(java)
            environment |= self.cluster_settings
        programs = Applications(self._addresses, self.state_dir, environment)
        applications = list(programs.services(self._services, self._gateways))
        if applications and "postgres" in self._services:
            programs.init_step("migrate")
        self._await_kafka(deadline)
        if applications and "kafka" in self._services:
            programs.init_step("topics")
            say("  tables and topics are there; the gateway and the jobs start")
        self._see_to_gateways()
        for service in applications:
            self._supervisor.add(service)
        self._wait_until(self._all_well, deadline)
        self.ready = True
        self._publish()

    def _start_kafka(self, java: Java, downloads: Downloads) -> None:
        if self._addresses.embedded("kafka"):
            service = prepare_kafka(
                java,
                downloads,
                self.state_dir,
                self._settings,
                archive=ClassArchives(java, downloads).options("kafka"),
                port=self.ports["kafka"],
                controller_port=self.ports["controller"],
            )
            self._supervisor.add(service)

    def _await_kafka(self, deadline: float) -> None:
        if self._addresses.embedded("kafka"):
            self._wait_until(lambda: self._runs("kafka"), deadline)
            say(f"  Kafka is up on {self.kafka_bootstrap}")
        elif "kafka" in self._services:
            at = self.kafka_bootstrap
            wait_for_own("Kafka", OWN_SERVER["kafka"], at, lambda: kafka_answers(at))

    def _start_cluster(self, java: Java) -> dict[str, str]:
        """What the jobs are told of it."""
        port = self._addresses.ports["spark-master"] = free_port(self.ports.values())
        cluster = SparkCluster(java, self.state_dir, port, self._workers)
        for service in cluster.services():
            self._supervisor.add(service)
        say(f"  Spark has a master and {self._workers} workers")
        return cluster.job_settings

    def _start_postgres(self, downloads: Downloads, deadline: float) -> None:
        if self._addresses.embedded("postgres"):
            port = self.ports["postgres"]
            service = prepare_postgres(downloads, self.state_dir, self._settings, port=port)
            self._supervisor.add(service)
            self._wait_until(lambda: self._runs("postgres"), deadline)
            prepare_database(self.state_dir, port)
            say(f"  PostgreSQL is up on 127.0.0.1:{port}")
        elif "postgres" in self._services:
            at = OWN_SERVER["postgres"]
            wait_for_own("PostgreSQL", at, at, lambda: postgres_answers(self.postgres_url))

    def _see_to_gateways(self) -> None:
        if self._gateways and self._settings.get("HEADRACE_AUTH", "none") != "none":
            renew_operator_token(self.state_dir, self.kafka_bootstrap)
        else:
            forget_operator_token(self.state_dir)
        for left in left_behind(self.state_dir, self._gateways):
            say(
                f"  {left.payloads} payloads wait in the spool of {left.gateway}, which is not "
                "started: start it again with --gateways"
            )

    def _runs(self, name: str) -> bool:
        return self._supervisor.children[name].state == "running"

    def _all_well(self) -> bool:
        if not all(self._runs(name) for name in self._supervisor.children):
            return False
        health = GatewayHealth(True)
        if self._gateways:
            health = ask_gateways(self.gateway_urls, operator_token(self.state_dir))
        jobs = {n: "paused" if health.is_paused(n) else its for n, its in health.jobs.items()}
        for name, state in sorted(jobs.items()):
            if state in _SETTLED and state != self.jobs.get(name):
                told = "up" if state == "pass" else f"{state}: ./headrace jobs resume {name}"
                say(f"  job {name} is {told}")
        self.jobs = jobs
        return health.accepts and (health.all_jobs_pass or "spark" not in self._services)

    def _wait_until(self, reached: Callable[[], bool], deadline: float) -> None:
        while not reached():
            if self.is_to_stop:
                raise KeyboardInterrupt
            for name, child in self._supervisor.children.items():
                if child.deaths >= DEATHS_TO_GIVE_UP:
                    log = log_path(self.state_dir, name)
                    raise StackError(f"{name} does not stay up: {child.last_words}", f"read {log}")
            if time.monotonic() > deadline:
                raise StackError(self._not_ready(), f"read the logs in {self.state_dir / 'logs'}")
            time.sleep(0.1)

    def _not_ready(self) -> str:
        services = {name: child.state for name, child in self._supervisor.children.items()}
        late = {**services, **{f"job {name}": status for name, status in self.jobs.items()}}
        settled = ("running", *_SETTLED)
        late = {name: status for name, status in late.items() if status not in settled}
        return f"the stack is not ready after {_START_WITHIN_S:.0f} s, waiting for: {late}"

    def _publish(self) -> None:
        with self._publishing:
            write_status(self.state_dir, self._status())

    def _status(self) -> dict[str, Any]:
        children = self._supervisor.children
        services = {n: {"state": child.state, "pid": child.pid} for n, child in children.items()}
        return {
            "ready": self.ready,
            "gateway_url": self.gateway_url,
            "gateway_urls": dict(self.gateway_urls),
            "desk_url": self.desk_url,
            "kafka_bootstrap": self.kafka_bootstrap,
            "postgres_url": self._addresses.postgres_url(READER),
            "state_dir": str(self.state_dir),
            "flow": flow_reference(self._settings),
            "jobs": self.jobs,
            "ports": dict(self.ports),
            "services": services,
        }
