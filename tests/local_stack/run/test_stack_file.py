import os
from pathlib import Path

import pytest

from local_stack.doctor.findings import Light
from local_stack.doctor.running import _part
from local_stack.machine.locks import InstanceLock, running_launcher
from local_stack.run import health
from local_stack.run.foreground import run_in_foreground
from local_stack.run.health import GatewayHealth, job_outputs, job_statuses
from local_stack.run.stack import Stack
from local_stack.run.stack_file import last_pids, read_status, service_state, write_status
from local_stack.run.take_down import hold
from local_stack.servers.addresses import Addresses
from local_stack.terminal.errors import StackError
from local_stack.verbs.status import lines

KEYS = {"ready", "gateway_url", "kafka_bootstrap", "postgres_url", "state_dir", "jobs"}


def test_before_the_first_start_nothing_is_ready(tmp_path: Path) -> None:
    status = read_status(tmp_path / "none")
    assert status.keys() >= KEYS
    assert not status["ready"]


def test_a_dead_launcher_is_not_ready_whatever_its_file_says(tmp_path: Path) -> None:
    services = {"kafka": {"state": "running", "pid": 1}}
    write_status(tmp_path, {"ready": True, "services": services, "jobs": {"fold": "pass"}})
    (tmp_path / "launcher.pid").write_text("1")
    status = read_status(tmp_path)
    assert (status["ready"], status["running"], status["jobs"]) == (False, False, {})
    assert status["services"] == {"kafka": {"state": "stopped", "pid": None}}


def test_of_a_stopped_stack_no_address_is_told(tmp_path: Path) -> None:
    """By now another stack may listen there."""
    last = {"gateway_url": "http://127.0.0.1:8080", "kafka_bootstrap": "127.0.0.1:9092"}
    write_status(tmp_path, {**last, "services": {}})
    status = read_status(tmp_path)
    assert {status[name] for name in last} == {None}


@pytest.mark.parametrize(
    "content",
    [
        '{"services": []}',
        '{"services": {"kafka": 1}}',
        '{"services": {"kafka": {}}}',
        '{"ports": 1}',
        '{"jobs": []}',
        "[]",
        '{"ready": tr',
    ],
)
def test_a_status_file_with_odd_content_counts_as_none(content: str, tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text(content)
    assert read_status(tmp_path)["services"] == {}
    assert service_state(tmp_path, "kafka") is None
    assert last_pids(tmp_path) == []


def test_the_status_file_is_for_its_owner_only(tmp_path: Path) -> None:
    write_status(tmp_path, {})
    assert (tmp_path / "stack.json").stat().st_mode & 0o077 == 0


def test_one_launcher_per_state_folder(tmp_path: Path) -> None:
    (tmp_path / "launcher.pid").write_text("999999")  # left by a killed one: no obstacle
    lock = InstanceLock(tmp_path)
    assert lock.acquire() is None
    try:
        assert running_launcher(tmp_path) == os.getpid()
        with pytest.raises(StackError, match=f"already runs on .*pid {os.getpid()}"):
            Stack(tmp_path).start()
    finally:
        lock.release()
    assert running_launcher(tmp_path) is None


def test_a_state_folder_that_cannot_be_made_is_a_sentence() -> None:
    with pytest.raises(StackError, match="/proc/nope cannot be used: No such file"):
        Stack(Path("/proc/nope")).reserve()


def test_a_second_launcher_says_nothing_before_it_has_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Stack(tmp_path)
    first.reserve()
    first.reserve()
    try:
        with pytest.raises(StackError, match="already runs"):
            run_in_foreground(tmp_path, random_ports=True)
    finally:
        first.stop()
    assert capsys.readouterr().out == ""


def test_a_port_that_is_none_is_a_sentence(tmp_path: Path) -> None:
    for wrong in ("abc", "0", "70000"):
        addresses = Addresses(tmp_path, {"HEADRACE_GATEWAY_PORT": wrong}, ())
        with pytest.raises(StackError, match=f"HEADRACE_GATEWAY_PORT='{wrong}' is no port"):
            addresses.choose_ports(print, random_ports=True)


def test_chaos_without_a_stack_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="no stack runs"):
        hold(tmp_path, "kafka")


def test_jobs_are_read_from_the_health_checks() -> None:
    checks = {
        "kafka:connection": [{"status": "pass"}],
        "job:fold": [{"status": "warn"}],
        "job:enrich": [],
    }
    assert job_statuses({"checks": checks}) == {"fold": "warn", "enrich": "fail"}
    assert job_statuses(None) == {}


def test_the_status_says_why_a_job_is_not_well() -> None:
    checks = {
        "job:persist": [{"status": "warn", "output": "waiting: PostgreSQL"}],
        "job:fold": [{"status": "pass"}],
    }
    outputs = job_outputs({"checks": checks})
    assert outputs == {"persist": "waiting: PostgreSQL"}
    found = read_status(Path("/proc/none")) | {
        "jobs": {"persist": "warn", "fold": "pass"},
        "job_outputs": outputs,
    }
    assert lines(found)[-2:] == [
        "job persist      warn: waiting: PostgreSQL",
        "job fold         pass",
    ]


def test_of_several_gateways_all_must_accept_and_a_job_is_as_the_worst_one_finds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = {
        "a": GatewayHealth(True, {"fold": "pass", "enrich": "pass"}, {"fold": "there is more"}),
        "b": GatewayHealth(False, {"fold": "warn", "enrich": "pass"}, {"fold": "waiting"}),
        "c": GatewayHealth(True),  # which knows nothing of jobs yet
    }
    monkeypatch.setattr(health, "ask_gateway", lambda url, _token: said[url])
    both = health.ask_gateways({"gateway": "a", "gateway-2": "b", "gateway-3": "c"})
    assert (both.accepts, both.closed) == (False, ("gateway-2",))
    assert both.jobs == {"fold": "warn", "enrich": "pass"}
    assert both.outputs == {"fold": "waiting"}
    assert health.ask_gateways({"gateway": "a"}).accepts
    assert not health.ask_gateways({}).accepts


def test_the_status_says_where_each_of_several_gateways_is_and_which_takes_nothing() -> None:
    services = {
        name: {"state": "running", "pid": 7} for name in ("gateway", "gateway-2", "balancer")
    }
    urls = {"gateway": "http://127.0.0.1:1", "gateway-2": "http://127.0.0.1:2"}
    found = read_status(Path("/proc/none")) | {
        "services": services,
        "gateway_urls": urls,
        "closed_gateways": ["gateway-2"],
    }
    assert lines(found)[-3:] == [
        "gateway          running, pid 7, http://127.0.0.1:1",
        "gateway-2        running, pid 7, http://127.0.0.1:2, takes no payloads now",
        "balancer         running, pid 7",
    ]
    assert _part("gateway-2", found).light is Light.RED
    assert _part("gateway", found).light is Light.GREEN


def test_a_job_that_an_operator_has_paused_is_as_it_should_be() -> None:
    jobs = {"fold": "pass", "persist": "warn"}
    health = GatewayHealth(True, jobs, {"persist": "paused: by ann"})
    assert health.all_jobs_pass
    assert not GatewayHealth(True, jobs, {"persist": "waiting: Kafka"}).all_jobs_pass
    assert not GatewayHealth(True, {"fold": "warn"}).all_jobs_pass
    assert not GatewayHealth(True).all_jobs_pass
