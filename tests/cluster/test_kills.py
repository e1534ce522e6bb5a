"""The whole stack with its jobs on a real Spark cluster: two workers that share no folder with the
driver; the checkpoints are in an object store. Each of its processes is killed while devices
post."""

import os
import signal
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from local_stack.run.stack import Stack
from tests.end_to_end.conftest import Running
from tests.object_store import BUCKET, ObjectStore
from tests.oracle import expected_states

pytestmark = pytest.mark.stack

DEVICES = [f"device-{number:04d}" for number in range(1, 9)]
# modules of a domain that lie outside the checkout
_OWN_FLOW = "from shared.flow import FLOW as SAMPLE\n\nFLOW = SAMPLE\n"


class OnCluster(Running):
    def __init__(self, stack: Stack, store: ObjectStore) -> None:
        super().__init__(stack)
        self.store = store


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "domain").mkdir()
    (folder / "domain" / "own_flow.py").write_text(_OWN_FLOW)
    sys.path.append(str(folder / "domain"))  # the launcher reads the flow, too
    settings = {"PYTHONPATH": str(folder / "domain"), "HEADRACE_FLOW": "own_flow:FLOW"}
    services = ("kafka", "postgres", "gateway", "spark", "relay")
    for name in ("HEADRACE_KAFKA_BOOTSTRAP", "HEADRACE_POSTGRES_URL"):
        os.environ.pop(name, None)
    with ObjectStore(folder) as store, pytest.MonkeyPatch.context() as patch:
        for name, value in store.access.items():
            patch.setenv(name, value)
        settings["HEADRACE_CHECKPOINT_STORE"] = f"s3a://{BUCKET}/of/this-cluster"
        with Stack(
            folder / "state", random_ports=True, services=services, settings=settings, workers=2
        ) as stack:
            running = OnCluster(stack, store)
            yield running
            running.http.close()
    sys.path.remove(str(folder / "domain"))


class Load:
    """Posts until it is told to end; what was accepted counts."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._post)
        self.ids: set[str] = set()

    def _post(self) -> None:
        number = 0
        while not self._end.is_set():
            for device in DEVICES:
                number += 1
                answer = self._running.post(device, b'{"value": %d}' % (number % 100))
                assert answer.status_code == 202
                self.ids.add(answer.json()["id"])
            time.sleep(0.05)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def _cmdline(process: Path) -> str:
    return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def _processes(what: str) -> Iterator[Path]:
    """Of this cluster's executors and what they start: they work in its folder."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if what in _cmdline(process):
                yield process


def _executor(stack: Stack) -> int | None:
    folder = str(stack.state_dir / "spark-cluster")
    executors = _processes("CoarseGrainedExecutorBackend --driver-url")
    own = [one for one in executors if folder in str((one / "cwd").readlink())]
    return int(own[0].name) if own else None


def _states(cluster: Running) -> dict[str, dict[str, Any]]:
    """Without what the product notes for itself."""
    return {
        device: {name: value for name, value in snapshot.items() if name != "_meta"}
        for device, snapshot in cluster.snapshots().items()
    }


KILLED: dict[str, Callable[[Stack], int | None]] = {
    "executor": _executor,
    "worker": lambda stack: stack.pid("spark-worker-2"),
    "master": lambda stack: stack.pid("spark-master"),
    "driver": lambda stack: stack.pid("spark"),
}


@pytest.mark.parametrize("which", KILLED)
def test_a_killed_process_of_the_cluster_loses_nothing(cluster: Running, which: str) -> None:
    with Load(cluster) as load:
        time.sleep(3)
        pid = KILLED[which](cluster.stack)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        time.sleep(8)
    cluster.eventually(lambda: KILLED[which](cluster.stack) not in (None, pid))
    _nothing_is_lost(cluster, load)


def test_a_store_of_checkpoints_that_is_away_loses_nothing(cluster: OnCluster) -> None:
    with Load(cluster) as load:
        time.sleep(3)
        cluster.store.kill()
        cluster.eventually(lambda: cluster.job_status("fold") != "pass")
        cluster.store.start()
    cluster.eventually(lambda: cluster.job_status("fold") == "pass")
    _nothing_is_lost(cluster, load)
    # what was written while it went away is read again: a job may not have taken it for written
    driver = cluster.stack.pid("spark")
    assert driver is not None
    with Load(cluster) as load:
        os.kill(driver, signal.SIGKILL)
        cluster.eventually(lambda: cluster.stack.pid("spark") not in (None, driver))
    _nothing_is_lost(cluster, load)
    jobs = ("enrich", "retry", "fold", "aggregate", "persist")
    cluster.eventually(lambda: all(cluster.job_status(job) == "pass" for job in jobs))


def _nothing_is_lost(cluster: Running, load: Load) -> None:
    cluster.eventually(lambda: set(cluster.completions_of(load.ids)) == load.ids, 300)
    assert cluster.rows_of(load.ids) == len(load.ids)
    assert len(cluster.completions_of(load.ids)) == len(load.ids)
    expected = expected_states(cluster.events())
    cluster.eventually(lambda: _states(cluster) == expected, 120)
    assert cluster.dead_letters() == 0


def test_secrets_are_on_no_command_line_and_in_no_log(cluster: OnCluster) -> None:
    state = cluster.stack.state_dir
    told = (state / "spark-cluster" / "secret").read_text().strip()
    logs = [*(state / "logs").glob("*.log"), *(state / "spark-cluster").glob("**/stderr")]
    assert len(logs) > 5
    for secret in (told, cluster.store.access["AWS_SECRET_ACCESS_KEY"]):
        assert not list(_processes(secret))
        assert not [log for log in logs if secret in log.read_text(errors="replace")]


def test_what_a_killed_jvm_leaves_lies_where_the_next_start_removes_it(cluster: Running) -> None:
    """Not in the machine's folder for temporary files: a driver's is 350 MB."""
    state = cluster.stack.state_dir
    copies = [*state.glob("spark/*/tmp/**/headrace-packages-*.tar")]
    assert copies

    def library() -> str | None:
        executor = _executor(cluster.stack)
        with suppress(OSError):
            for line in Path(f"/proc/{executor}/maps").read_text().splitlines():
                if "librocksdbjni" in line:
                    return line.split()[-1]
        return None

    cluster.eventually(lambda: library() is not None)
    assert str(library()).startswith(f"{state}/spark-cluster/")


def test_executors_have_their_code_from_the_application_alone(cluster: Running) -> None:
    folder = str(cluster.stack.state_dir / "spark-cluster")

    def daemons() -> list[Path]:
        found = _processes("stream_jobs.supervision.worker_daemon")
        return [one for one in found if folder in str((one / "cwd").readlink())]

    def have_imported() -> bool:
        loaded = [(one / "maps").read_text() for one in daemons()]
        return bool(loaded) and all("/numpy/" in one for one in loaded)

    assert cluster.post(DEVICES[0], b'{"value": 1}').status_code == 202
    cluster.eventually(have_imported)
    checkout, packages = str(Path(__file__).parents[2]), sysconfig.get_path("purelib")
    plain = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    for daemon in daemons():
        told = dict(
            one.partition("=")[::2]
            for one in (daemon / "environ").read_text(errors="replace").split("\0")
        )
        assert not {"HEADRACE_POSTGRES_URL", "HEADRACE_LEASES"} & told.keys()
        paths = told["PYTHONPATH"].split(":")
        assert paths[:2] == ["headrace-code/0", "headrace-code/1"]
        assert not {checkout, packages} & {*paths}
        assert not plain.exists() or (daemon / "exe").readlink() == plain.resolve()
        loaded = (daemon / "maps").read_text()
        assert f"{packages}/numpy" not in loaded
        assert f"{(daemon / 'cwd').readlink()}/headrace-packages/numpy" in loaded
