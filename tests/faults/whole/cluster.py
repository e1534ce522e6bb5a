"""What happens to a Spark cluster, where the rig's stack has one (`--workers`)."""

import functools

from tests.end_to_end.launcher import Launcher, descendants, parents_of_all
from tests.faults.whole.faults import Fault, Find, frozen, killed, service

_DAEMON = "stream_jobs.supervision.worker_daemon"


def _executor(launcher: Launcher) -> int | None:
    for worker in ("spark-worker-1", "spark-worker-2"):
        pid = launcher.service_pid(worker)
        for child, command in (descendants(pid) if pid else {}).items():
            if "executor.CoarseGrainedExecutorBackend" in command:
                return child
    return None


def _forked_worker(launcher: Launcher) -> int | None:
    """Not the daemon that has forked it: whose workers stay in service."""
    parents = parents_of_all()
    for worker in ("spark-worker-1", "spark-worker-2"):
        pid = launcher.service_pid(worker)
        children = descendants(pid) if pid else {}
        daemons = {p for p, said in children.items() if _DAEMON in said and "java" not in said}
        for child in daemons:
            if parents.get(child) in daemons:
                return child
    return None


_PARTS: dict[str, Find] = {
    "an executor": _executor,
    "a Python worker of an executor": _forked_worker,
    "a worker of the cluster": service("spark-worker-2"),
    "the master": service("spark-master"),
}
CLUSTER_KINDS: dict[str, Fault] = {
    **{f"{name} killed": functools.partial(killed, find) for name, find in _PARTS.items()},
    **{f"{name} frozen": functools.partial(frozen, find) for name, find in _PARTS.items()},
}
