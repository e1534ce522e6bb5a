import json
import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from local_stack import cli
from local_stack.doctor import machine, running
from local_stack.doctor.findings import Finding, Light, green, red
from local_stack.doctor.settings import look_at_settings
from local_stack.machine import java
from local_stack.machine.locks import InstanceLock
from local_stack.machine.settings_check import Unknown, unknown_settings
from local_stack.run.stack_file import read_status, write_status
from local_stack.verbs.doctor import line
from shared.flow import FLOW


@pytest.fixture(autouse=True)
def no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        if name != "HEADRACE_CACHE_DIR":
            monkeypatch.delenv(name)


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def on(folder: Path) -> dict[str, Finding]:
    return by_name(running.look_at_running(folder, read_status(folder)))


@pytest.mark.slow
def test_as_json_it_tells_every_finding_and_whether_all_is_well(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, ["doctor", "-o", "json", "--state-dir", str(tmp_path)])
    said = json.loads(result.output)
    lights = {finding["name"]: finding["light"] for finding in said["findings"]}
    assert {"Python", "disk", "downloads", "flow", "stack"} <= lights.keys()
    assert said["ok"] is ("red" not in lights.values())
    assert result.exit_code == (0 if said["ok"] else 1)


@pytest.mark.slow
def test_a_red_finding_makes_the_exit_code_and_names_its_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_PARTITIONS", "zero")
    result = CliRunner().invoke(cli.app, ["doctor", "--state-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert "HEADRACE_PARTITIONS='zero'" in result.output
    assert result.output.count("HEADRACE_PARTITIONS") == 1
    assert "1 red" in result.output


def test_a_green_line_has_its_place_and_another_one_its_fix_below() -> None:
    assert line(green("disk", "9 GB free", "there"), in_colour=False).split() == (
        ["✔", "disk", "9", "GB", "free", "there"]
    )
    what, fix = line(red("disk", "full", "free some"), in_colour=True).splitlines()
    assert "\033[31m✘\033[0m disk" in what
    assert fix.strip() == "-> free some"


def test_a_setting_that_nothing_reads_is_named_with_the_nearest_one() -> None:
    environment = {"HEADRACE_PARTITONS": "3", "HEADRACE_XYZZY": "", "HEADRACE_DEBUG": "1", "A": ""}
    assert unknown_settings(environment) == [
        Unknown("HEADRACE_PARTITONS", "HEADRACE_PARTITIONS"),
        Unknown("HEADRACE_XYZZY", None),
    ]


def test_unknown_settings_are_yellow_and_a_flow_that_does_not_load_is_red(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_TRIGER_MS", "5")
    monkeypatch.setenv("HEADRACE_FLOW", "nowhere:FLOW")
    findings = by_name(look_at_settings())
    assert findings["settings"].light is Light.YELLOW
    assert "HEADRACE_TRIGGER_MS" in findings["settings"].value
    assert findings["flow"].light is Light.RED


def _java(folder: Path, version: str) -> Path:
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    said = f"    java.home = {folder}\\n    java.version = {version}\\n"
    command.write_text(f"#!/bin/sh\nprintf '{said}' >&2\n")
    command.chmod(0o755)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "why"), [("25.0.2", "JDK-8377811"), ("11.0.2", "Spark needs 17, 21 or >= 25.0.3")]
)
def test_a_java_that_is_refused_is_told_with_the_reason(
    version: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java(tmp_path / "named", version)))
    monkeypatch.setenv("PATH", str(_java(tmp_path / "other", "21.0.8") / "bin") + ":/bin:/usr/bin")
    found = java.java_of_the_machine()
    assert found.usable == java.Java(tmp_path / "other", "21.0.8")
    (refused,) = found.refused
    assert refused.startswith(f"the Java of JAVA_HOME is {version}")
    assert why in refused


def test_a_machine_without_a_java_needs_the_network_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    findings = by_name(machine.look_at_machine(tmp_path, {"running": True}))
    assert "fetches one" in findings["Java"].note
    assert "needs the network" in findings["downloads"].note


@pytest.mark.slow
def test_a_taken_port_is_named_and_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv("HEADRACE_GATEWAY_PORT", str(port))
        finding = by_name(machine.look_at_machine(tmp_path, {"running": False}))["ports"]
    assert finding.light is Light.YELLOW
    assert f"gateway {port}" in finding.value


@pytest.mark.slow
def test_a_bundle_that_is_none_is_red_and_a_proxy_shows_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    monkeypatch.setenv("https_proxy", "http://me:secret@proxy.example:3128")
    findings = by_name(machine.look_at_machine(tmp_path, {"running": True}))
    assert findings["certificates"].light is Light.RED
    assert "https by proxy.example:3128" in findings["proxy"].value
    assert "secret" not in str(findings)


def test_before_the_first_start_nothing_is_wrong(tmp_path: Path) -> None:
    findings = on(tmp_path / "none")
    assert [finding.light for finding in findings.values()] == [Light.GREEN, Light.GREEN]


def test_a_state_folder_that_is_somebody_else_s_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    assert on(tmp_path)["state folder"].light is Light.YELLOW
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert on(tmp_path)["state folder"].light is Light.RED


def test_a_killed_launcher_is_told_and_no_obstacle(tmp_path: Path) -> None:
    write_status(tmp_path, {"services": {"kafka": {"state": "running", "pid": 1}}})
    assert "was killed" in on(tmp_path)["stack"].value
    write_status(tmp_path, {"services": {"kafka": {"state": "stopped", "pid": None}}})
    assert on(tmp_path)["stack"].light is Light.GREEN


def test_only_a_live_postgres_makes_a_pid_file_an_obstacle(tmp_path: Path) -> None:
    file = tmp_path / "postgres" / "data" / "postmaster.pid"
    file.parent.mkdir(parents=True)
    file.write_text(f"{os.getpid()}\n")  # by now the number of another process
    assert on(tmp_path)["stack"].light is Light.GREEN


def test_a_part_that_is_held_or_down_and_a_job_that_is_not_well_say_what_to_do() -> None:
    services = {"kafka": {"state": "held"}, "spark": {"state": "restarting"}}
    kafka, spark = (running._part(name, {"services": services}) for name in services)
    assert (kafka.light, kafka.note) == (Light.YELLOW, "./headrace chaos kafka up")
    assert (spark.light, spark.note) == (Light.RED, "./headrace logs spark")
    status: dict[str, Any] = {
        "services": {"gateway": {}},
        "jobs": {"fold": "warn", "persist": "warn", "enrich": "warn", "relay": "pass"},
        "job_outputs": {
            "fold": "failed: RECORDS_EXPIRED",
            "persist": "waiting: PostgreSQL",
            "enrich": "paused: by ann",
        },
    }
    found = running._jobs(status)
    assert found[2].note == "./headrace jobs resume enrich"
    jobs = [(finding.name, finding.light) for finding in found]
    assert jobs == [
        ("job fold", Light.RED),
        ("job persist", Light.YELLOW),
        ("job enrich", Light.YELLOW),
        ("job relay", Light.GREEN),
    ]
    assert running._jobs({**status, "jobs": {}})[0].light is Light.RED


def test_a_job_that_waits_for_postgres_is_mended_there() -> None:
    status: dict[str, Any] = {
        "services": {"gateway": {}, "postgres": {"state": "held"}},
        "jobs": {"relay": "warn"},
        "job_outputs": {"relay": "waiting: PostgreSQL: connection refused"},
    }
    (relay,) = running._jobs(status)
    assert (relay.light, relay.note) == (Light.YELLOW, "./headrace chaos postgres up")
    del status["services"]["postgres"]  # one of the user's own
    assert running._jobs(status)[0].note == "./headrace logs relay"


def test_servers_of_ones_own_are_asked_without_a_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "ANSWER_S", 0.2)
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("HEADRACE_POSTGRES_URL", "postgresql://me:secret@127.0.0.1:1/none")
    findings = on(tmp_path)
    assert findings["Kafka"].light is findings["PostgreSQL"].light is Light.RED
    assert "HEADRACE_KAFKA_BOOTSTRAP" in findings["Kafka"].note
    assert "secret" not in str(findings)


@pytest.mark.slow
def test_a_running_stack_has_its_ports_itself(tmp_path: Path) -> None:
    write_status(tmp_path, {"ports": {"gateway": 18080}, "services": {}})
    lock = InstanceLock(tmp_path)
    assert lock.acquire() is None
    try:
        status = read_status(tmp_path)
        findings = by_name(machine.look_at_machine(tmp_path, status))
    finally:
        lock.release()
    assert findings["ports"].value == "gateway 18080"
    assert "memory" not in findings


def test_beside_a_stack_with_another_flow_the_topics_of_this_one_are_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = SimpleNamespace(list_topics=lambda **_: SimpleNamespace(topics={}))
    monkeypatch.setattr(running, "admin", lambda _kafka: empty)
    write_status(tmp_path, {"flow": "doors:FLOW", "kafka_bootstrap": "127.0.0.1:1", "services": {}})
    lock = InstanceLock(tmp_path)
    assert lock.acquire() is None
    try:
        findings = on(tmp_path)
        monkeypatch.setenv("HEADRACE_FLOW", "shared.flow:FLOW")
        write_status(tmp_path, {**read_status(tmp_path), "flow": "shared.flow:FLOW"})
        of_the_same = on(tmp_path)
    finally:
        lock.release()
    assert findings["flow"].light is Light.YELLOW
    assert "the running stack doors:FLOW" in findings["flow"].value
    assert "topics" not in findings
    assert "flow" not in of_the_same
    assert of_the_same["topics"].light is Light.RED


def test_a_topic_that_is_configured_otherwise_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {topic.name: None for topic in FLOW.topics()}
    admin = SimpleNamespace(list_topics=lambda **_: SimpleNamespace(topics=there))
    monkeypatch.setattr(running, "admin", lambda _kafka: admin)
    told = "dlq.enrich.v1 has retention.ms=604800000, not -1"
    monkeypatch.setattr(running, "other_configs", lambda _admin, _flow: [told])
    monkeypatch.setattr(running, "_replicas", lambda *_: running.green("replicas", "1 of each"))
    found = by_name(running._kafka("127.0.0.1:9", "start it", with_topics=True))
    assert (found["topic settings"].light, found["topic settings"].value) == (Light.YELLOW, told)


@pytest.mark.parametrize(
    ("replicas", "in_sync", "config", "light", "said"),
    [
        (1, 1, {"min.insync.replicas": "1"}, Light.GREEN, "1 of each partition"),
        (3, 1, {"min.insync.replicas": "2"}, Light.RED, "nothing can be written to a"),
        (3, 3, {"min.insync.replicas": "1"}, Light.YELLOW, "min.insync.replicas is 1"),
        (3, 3, {"unclean.leader.election.enable": "true"}, Light.YELLOW, "is true"),
    ],
)
def test_replicas_are_looked_at_and_not_believed(
    replicas: int, in_sync: int, config: dict[str, str], light: Light, said: str
) -> None:
    entries = {name: SimpleNamespace(value=value) for name, value in config.items()}
    told = SimpleNamespace(result=lambda _: entries)
    asked = SimpleNamespace(describe_configs=lambda its, **_: dict.fromkeys(its, told))
    partition = SimpleNamespace(replicas=range(replicas), isrs=range(in_sync))
    topic = SimpleNamespace(partitions={0: partition})
    found = running._replicas(asked, SimpleNamespace(topics={"a": topic}), ["a"])  # type: ignore[arg-type]
    assert (found.name, found.light) == ("replicas", light)
    assert said in found.value
