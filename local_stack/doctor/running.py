"""What runs: the state folder, the servers with what must be in them, the parts and the jobs."""

import os
import pwd
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from alembic.script import ScriptDirectory
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ClusterMetadata,
    ConfigResource,
)

from clients.kafka.connect import admin
from clients.kafka.create_topics import other_configs
from clients.postgres.store import connect, one_line
from local_stack.doctor.findings import Finding, green, red, yellow
from local_stack.machine.paths import CHECKOUT
from local_stack.machine.settings_check import chosen_flow, kafka_at, settings
from local_stack.run.folder_flow import flow_reference
from local_stack.run.health import says_paused
from local_stack.servers.addresses import OWN_SERVER
from local_stack.terminal.errors import StackError
from shared.errors import StoreAwayError
from shared.flow_table import Flow
from shared.published.replicas import Copies, troubles

ANSWER_S = 5.0
UP = "start it with: ./headrace up"
REPLICAS = "docs/operations.md says more: Replicas"
OFFSETS = "__consumer_offsets"  # by which the jobs know where they go on
UP_MENDS_IT = "stop the stack and start it again: `up` makes what is missing"


def look_at_running(folder: Path, status: dict[str, Any]) -> list[Finding]:
    another_flow = _another_flow(status)
    findings = [_state_folder(folder), _launcher(folder, status), *another_flow]
    kafka = partial(_kafka, with_topics=not another_flow)
    for name, look in (("kafka", kafka), ("postgres", _postgres)):
        own = os.environ.get(OWN_SERVER[name])
        address = own or (status[ADDRESS[name]] if status["running"] else None)
        if address:
            findings += look(address, f"look at {OWN_SERVER[name]}" if own else _fix(name, status))
    if status["running"]:
        findings += [_part(name, status) for name in status["services"]]
        findings += _jobs(status)
    return findings


ADDRESS = {"kafka": "kafka_bootstrap", "postgres": "postgres_url"}


def _another_flow(status: dict[str, Any]) -> list[Finding]:
    here = flow_reference(os.environ)
    there = status.get("flow", here)
    if not status["running"] or here == there:
        return []
    said = f"this terminal has {here}, the running stack {there}"
    return [yellow("flow", said, "export HEADRACE_FLOW (and PYTHONPATH) here, too")]


def _state_folder(folder: Path) -> Finding:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        whose = f"{there} is {_owner(there)}'s and closed to you"
        return red("state folder", whose, "choose another one with HEADRACE_STATE_DIR")
    if there != folder:
        return green("state folder", "not there yet", f"{folder}, the first start makes it")
    if folder.stat().st_uid != os.geteuid():
        fix = "choose another one with HEADRACE_STATE_DIR, or start as that user"
        return yellow("state folder", f"{folder} is {_owner(folder)}'s, not yours", fix)
    return green("state folder", "yours", str(folder))


def _owner(path: Path) -> str:
    uid = path.stat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _launcher(folder: Path, status: dict[str, Any]) -> Finding:
    if status["running"]:
        ready = "ready" if status["ready"] else "not ready: see below"
        return green("stack", f"runs, {ready}", f"pid {status['launcher_pid']}")
    if (pid := _live_postmaster(folder)) is not None:
        fix = f"stop it: kill -INT {pid}"
        return red("stack", f"none runs, but a PostgreSQL (pid {pid}) uses its data", fix)
    if status.get("was_running"):
        fix = "nothing must be done: the next start clears up after it"
        return yellow("stack", "none runs; the last one was killed", fix)
    return green("stack", "none runs", UP)


def _live_postmaster(folder: Path) -> int | None:
    try:
        pid = int((folder / "postgres" / "data" / "postmaster.pid").read_text().split()[0])
        is_postgres = Path(f"/proc/{pid}/comm").read_text().strip() == "postgres"
    except (OSError, ValueError, IndexError):
        return None
    return pid if is_postgres else None


def _kafka(bootstrap: str, fix: str, *, with_topics: bool) -> list[Finding]:
    try:
        client = admin(kafka_at(bootstrap))
    except StackError:  # told already
        return []
    try:
        topics = client.list_topics(timeout=ANSWER_S)
    except KafkaException as error:
        reason = error.args[0].str()
        return [red("Kafka", f"{bootstrap} does not answer: {reason}", fix)]
    reached = green("Kafka", "answers", bootstrap)
    if not with_topics:
        return [reached]
    try:
        flow = chosen_flow()
    except StackError:  # told already
        return [reached]
    wanted = [topic.name for topic in flow.topics()]
    missing = [name for name in wanted if name not in topics.topics]
    if missing:
        return [reached, red("topics", f"missing: {', '.join(missing)}", UP_MENDS_IT)]
    there = green("topics", f"all {len(wanted)} there")
    return [reached, there, _replicas(client, topics, wanted), *_topic_settings(client, flow)]


def _replicas(client: AdminClient, topics: ClusterMetadata, wanted: list[str]) -> Finding:
    configs = _configs(client, wanted)
    looked_at = [*wanted, *({OFFSETS} & topics.topics.keys())]
    copies = []
    for name in looked_at:
        partitions = topics.topics[name].partitions.values()
        in_sync = [(len(its.replicas), len(its.isrs)) for its in partitions]
        copies.append(Copies.of(name, in_sync, configs.get(name, {})))
    found = list(troubles(copies, settings().replication))
    fewest = min((one.fewest for one in copies), default=0)
    if not found:
        return green("replicas", f"{fewest} of each partition", "all in sync")
    finding = red if any(one.status == "fail" for one in found) else yellow
    first, *more = found
    return finding("replicas", first.text, "; ".join(one.text for one in more) or REPLICAS)


def _configs(client: AdminClient, topics: list[str]) -> dict[str, dict[str, str]]:
    """The configurations of those topics where they may be seen."""
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    asked = client.describe_configs(resources, request_timeout=ANSWER_S)
    found = {}
    for resource, answer in asked.items():
        with suppress(KafkaException):
            entries = answer.result(ANSWER_S + 1)
            found[resource.name] = {name: str(entry.value) for name, entry in entries.items()}
    return found


def _topic_settings(client: AdminClient, flow: Flow) -> list[Finding]:
    """Who chose another value may know why: `up` leaves it as it is."""
    try:
        others = other_configs(client, flow)
    except KafkaException as error:
        others = [f"they cannot be read: {error.args[0].str()}"]
    fix = "set it with kafka-configs.sh, unless you chose it"
    return [yellow("topic settings", other, fix) for other in others]


def _postgres(url: str, fix: str) -> list[Finding]:
    try:
        with connect(url, "doctor") as connection:
            at = connection.info
            reached = green("PostgreSQL", "answers", f"{at.host}:{at.port}/{at.dbname}")
            query = "SELECT version_num FROM headrace.alembic_version"
            try:
                row = connection.execute(query).fetchone()
            except psycopg.errors.UndefinedTable:
                row = None
    except StoreAwayError as error:
        return [red("PostgreSQL", str(error), fix)]
    except psycopg.Error as error:
        return [red("PostgreSQL", one_line(error), fix)]
    newest = ScriptDirectory(
        str(CHECKOUT / "clients" / "postgres" / "migrations")
    ).get_current_head()
    now = row[0] if row else "none"
    if now != newest:
        return [reached, red("schema", f"{now}, wanted is {newest}", UP_MENDS_IT)]
    return [reached, green("schema", str(now))]


def _fix(name: str, status: dict[str, Any]) -> str:
    part = status["services"].get(name, {})
    verb = f"chaos {name} up" if part.get("state") == "held" else f"logs {name}"
    return f"./headrace {verb}"


def _part(name: str, status: dict[str, Any]) -> Finding:
    state = status["services"][name]["state"]
    if state == "running" and name in status.get("closed_gateways", ()):
        return red(name, "takes no payloads now", _fix(name, status))
    if state == "running":
        return green(name, state)
    if state == "held":
        return yellow(name, "held down by `chaos`", _fix(name, status))
    return red(name, state, _fix(name, status))


def _jobs(status: dict[str, Any]) -> list[Finding]:
    if not status["jobs"] and "gateway" in status["services"]:
        return [red("jobs", "the gateway tells nothing of them", "./headrace logs gateway")]
    return [_job(name, state, status) for name, state in status["jobs"].items()]


def _job(name: str, state: str, status: dict[str, Any]) -> Finding:
    if state == "pass":
        return green(f"job {name}", state)
    output = status["job_outputs"].get(name, state)
    if output.startswith("waiting: PostgreSQL") and "postgres" in status["services"]:
        return yellow(f"job {name}", output, _fix("postgres", status))
    if says_paused(output):
        return yellow(f"job {name}", output, f"./headrace jobs resume {name}")
    log = "relay" if name == "relay" else "spark"
    finding = red if state == "fail" or output.startswith("failed") else yellow
    return finding(f"job {name}", output, f"./headrace logs {log}")
