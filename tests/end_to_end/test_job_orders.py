"""Orders for jobs on a running stack: as an operator gives them, and what is seen of it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import orjson
import pytest

from tests.end_to_end.conftest import Running
from tests.oracle import expected_states

pytestmark = pytest.mark.stack
DEVICES = {f"device-{number:04d}" for number in range(950, 958)}


def jobs(running: Running, *arguments: str) -> str:
    command = [sys.executable, "-m", "local_stack", "jobs", *arguments]
    folder = ["--state-dir", str(running.stack.state_dir)]
    done = subprocess.run(
        [*command, *folder], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def state_of(running: Running, job: str) -> str:
    listed = orjson.loads(jobs(running, "list", "--output", "json"))
    return str(next(one["state"] for one in listed if one["job"] == job))


def said(running: Running, job: str) -> str:
    check = running.http.get("/health").json()["checks"][f"job:{job}"][0]
    return str(check.get("output", ""))


@contextmanager
def paused(running: Running, job: str) -> Iterator[None]:
    """Whatever becomes of the test, others need the job."""
    try:
        jobs(running, "pause", job, "--why", "its store moves")
        running.eventually(lambda: said(running, job).startswith("paused: by "))
        yield
    finally:
        jobs(running, "resume", job)


def post(running: Running, value: int) -> set[str]:
    body = b'{"value": %d, "temp_f": %d}' % (value, value)
    return {one["id"] for one in running.post_all([(device, body) for device in sorted(DEVICES)])}


def states_are_right(running: Running) -> bool:
    """By an oracle that knows the events alone."""
    expected = expected_states([e for e in running.events() if e["entity_id"] in DEVICES])
    found = {device: running.state(device) for device in DEVICES}
    return expected == {device: its["state"] for device, its in found.items() if its}


def wrong_at_the_desk(running: Running) -> list[dict[str, str]]:
    """As the page of the flow has it at its top."""
    told = httpx.get(f"{running.stack.desk_url}/api/flow", timeout=30).json()
    assert told["health"]["status"] is not None, told["health"]
    return [one for one in told["health"]["troubles"] if one["check"] == "job:persist"]


def test_a_paused_job_does_nothing_says_so_and_goes_on_where_it_was(running: Running) -> None:
    before = post(running, 1)
    running.eventually(lambda: running.rows_of(before) == len(DEVICES))
    with paused(running, "persist"):
        assert "its store moves" in said(running, "persist")
        assert running.job_status("persist") == "warn"
        running.eventually(lambda: "its store moves" in str(wrong_at_the_desk(running)))
        ids = post(running, 2)
        running.eventually(lambda: states_are_right(running))  # the others work
        running.eventually(lambda: (lag(running, "persist") or 0) >= len(DEVICES))
        assert running.rows_of(ids) == 0
        assert state_of(running, "persist") == "paused"
    running.eventually(lambda: running.rows_of(ids) == len(DEVICES))
    running.eventually(lambda: sorted(running.completions_of(ids)) == sorted(ids))
    running.eventually(lambda: running.job_status("persist") == "pass")


def lag(running: Running, job: str) -> float | None:
    check = running.http.get("/health").json()["checks"][f"job:{job}"][0]
    return check.get("lag_records")


def test_fold_makes_its_state_anew_and_counts_nothing_twice(running: Running) -> None:
    post(running, 3)
    running.eventually(lambda: states_are_right(running))
    checkpoint = running.stack.state_dir / "checkpoints" / "fold"
    (metadata,) = checkpoint.glob("metadata")
    query = metadata.read_bytes()
    jobs(running, "rebuild", "fold", "--why", "to see it")
    running.eventually(lambda: metadata.exists() and metadata.read_bytes() != query)
    ids = post(running, 4)
    running.eventually(lambda: running.rows_of(ids) == len(DEVICES))
    running.eventually(lambda: states_are_right(running))
    running.eventually(lambda: running.job_status("fold") == "pass")
    query = metadata.read_bytes()
    # the order stands, and was done
    jobs(running, "pause", "fold")
    jobs(running, "resume", "fold")
    running.eventually(lambda: state_of(running, "fold") == "running")
    assert metadata.read_bytes() == query


def test_what_cannot_be_is_a_sentence(running: Running) -> None:
    for order, job, why in (
        ("pause", "nobody", "this flow has no job nobody: enrich"),
        ("rebuild", "enrich", "enrich keeps no state"),
    ):
        command = [sys.executable, "-m", "local_stack", "jobs", order, job]
        command += ["--state-dir", str(running.stack.state_dir)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert why in done.stderr
