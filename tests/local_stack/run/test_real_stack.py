"""The whole stack, started once: the demo's books add up, the doctor finds it well."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from clients.postgres.grants import DESK, JOBS, ROLES
from local_stack import cli
from local_stack.demo import run
from local_stack.machine.paths import CHECKOUT
from local_stack.run.ready_block import ready_block
from local_stack.run.stack import ALL_SERVICES, Stack
from local_stack.servers.postgres_address import SUPERUSER
from tests.kafka_log import eventually

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    # whatever the developer's shell points at, this is a stack of its own
    for name in ("HEADRACE_KAFKA_BOOTSTRAP", "HEADRACE_POSTGRES_URL", "HEADRACE_FLOW"):
        os.environ.pop(name, None)
    settings = {"HEADRACE_HOOKS_HOSTS_ALLOWED": "127.0.0.1"}
    folder = tmp_path_factory.mktemp("state")
    with Stack(folder, random_ports=True, settings=settings) as stack:
        yield stack


def ask(stack: Stack, *arguments: str) -> tuple[int, Any]:
    on = ["--state-dir", str(stack.state_dir), "-o", "json"]
    result = CliRunner().invoke(cli.app, [*arguments, *on])
    return result.exit_code, json.loads(result.output)


def test_the_doctor_finds_a_running_stack_well(stack: Stack) -> None:
    of_the_stack = {"stack", "Kafka", "topics", "PostgreSQL", "schema", "flow"}
    of_the_stack |= {f"job {name}" for name in stack.jobs}

    def is_well() -> bool:
        """Soon: a job that has just started may be busy for some seconds."""
        code, said = ask(stack, "doctor")
        green = {finding["name"] for finding in said["findings"] if finding["light"] == "green"}
        return (code, said["ok"]) == (0, True) and green >= of_the_stack

    eventually(is_well)


def test_the_books_of_the_demo_add_up(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "SETTLE_S", 300.0)  # a busy machine is slow, not wrong
    load = ("--events", "200", "--rate", "50", "--seed", "1")
    code, end = ask(stack, "demo", *load, "--alarms")
    assert (code, end["adds_up"], end["all_through"], end["folded"]) == (0, True, True, True)
    assert end["refused"] == {}
    assert (end["accepted"], end["distinct"], end["doubled"]) == (212, 200, 12)
    assert end["parked"].keys() == {"not_json", "wrong_type"}
    assert (sum(end["parked"].values()), sum(end["waiting"].values())) == (12, 4)
    assert end["waiting"].keys() <= {"missing_device", "behind"}
    assert end["events"] == end["completed"] == 184
    alarms = end["alarms"]
    assert (alarms["reached"] > 0, alarms["undelivered"]) == (True, 0)
    # never before what raised them; how soon is a matter of the machine
    for reader in ("webhook_ms", "event_stream_ms"):
        assert 0 < alarms[reader]["p50"] <= alarms[reader]["p99"] <= alarms[reader]["max"] < 300_000
    assert ask(stack, "hooks", "list") == (0, [])

    # alarms that the fleet has caused are rows, too
    sent = "type IN ('reading', 'status_changed')"
    _, rows = ask(stack, "sql", f"SELECT count(*)::int AS n FROM headrace.event WHERE {sent}")
    assert rows == [{"n": 184}]
    _, letters = ask(stack, "tail", "dlq.enrich.v1", "-n", "100")
    assert len(letters) == 12
    assert {letter["headers"]["ce_reason"] for letter in letters} == end["parked"].keys()
    bytes_that_are_no_text = [x["value"] for x in letters if not isinstance(x["value"], str)]
    assert bytes_that_are_no_text == [{"base64": "eyJyb29tIjogIkv8Y2hlIn0="}] * 4
    _, devices = ask(stack, "devices", "list", "--limit", "2")
    assert [device["id"] for device in devices] == ["device-0001", "device-0002"]


def test_each_part_has_a_role_of_its_own_and_every_verb_may_do_what_it_does(stack: Stack) -> None:
    with psycopg.connect(stack.postgres_url) as connection:
        query = "SELECT DISTINCT application_name, usename FROM pg_stat_activity"
        roles = {name: role for name, role in connection.execute(query) if "headrace" in name}
    assert roles.pop("headrace-relay") == roles.pop("headrace-persist") == JOBS
    assert roles.pop("headrace-desk-index") == roles.pop("headrace-desk-redrive") == DESK
    assert SUPERUSER not in roles.values()
    code, gone = ask(stack, "letters", "discard", "--cause", "not_json", "--reason", "a test")
    assert code == 0
    assert gone["discarded"] > 0
    added = ("--area", "area-01", "--model", "thermo-c")
    assert ask(stack, "devices", "add", "device-9999", *added)[0] == 0
    assert ask(stack, "ledger")[0] == 0
    eventually(lambda: ask(stack, "ledger")[1]["discarded"] == gone["discarded"])


def test_no_process_shows_a_password(stack: Stack) -> None:
    folder = stack.state_dir / "postgres"
    secrets = [file.read_text().strip().rpartition(":")[2] for file in folder.glob("*.pgpass")]
    assert len(secrets) == len(ROLES) + 1
    pids = {stack.pid(name) for name in ALL_SERVICES}
    seen = json.dumps(ask(stack, "status")) + ready_block(stack, 1.0)
    for pid in pids:
        seen += Path(f"/proc/{pid}/cmdline").read_text() + Path(f"/proc/{pid}/environ").read_text()
    for log in (stack.state_dir / "logs").iterdir():
        seen += log.read_text()
    assert not [secret for secret in secrets if secret in seen]
    assert stack.state_dir.stat().st_mode & 0o777 == 0o700


def test_ctrl_c_ends_the_demo_with_its_books(stack: Stack) -> None:
    command = [sys.executable, "-m", "local_stack", "demo", "--state-dir", str(stack.state_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT) as demo:
        assert demo.stdout is not None
        next(line for line in demo.stdout if line.startswith("demo: sent "))
        demo.send_signal(signal.SIGINT)
        said = demo.stdout.read()
    assert "distinct + " in said
    assert "./headrace sql" in said


def test_the_fold_that_runs_would_change_nothing(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, found = ask(stack, "refold", "--entity", "device", "--dry-run")
    assert (code, found["changed"], found["live_fold"]) == (0, 0, [found["new_fold"]])
    assert 0 < found["entities"] <= found["events"]
    monkeypatch.setenv("HEADRACE_FLOW", "tests.changed_flow:FLOW")
    code, found = ask(stack, "refold", "--entity", "device", "--dry-run", "--limit", "1")
    assert code == 0
    assert 0 < found["changed"] <= found["entities"]
    (change,) = found["changes"]
    live, new = change["fields"]["count"]
    assert new == 2 * live
