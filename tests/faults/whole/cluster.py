"""What happens to a Spark cluster, where the rig's stack has one (`--workers`)."""

import functools

from tests.end_to_end.launcher import Launcher, descendants
from tests.faults.whole.faults import Fault, Find, frozen, killed


def _service(name: str) -> Find:
    return lambda launcher: launcher.service_pid(name)


def _of_an_executor(words: str) -> Find:
    def find(launcher: Launcher) -> int | None:
        for worker in ("spark-worker-1", "spark-worker-2"):
            pid = launcher.service_pid(worker)
            children = descendants(pid) if pid else {}
            for child, command in children.items():
                if words in command:
                    return child
        return None

    return find


_PARTS: dict[str, Find] = {
    "an executor": _of_an_executor("executor.CoarseGrainedExecutorBackend"),
    "a Python worker of an executor": _of_an_executor("stream_jobs.supervision.worker_daemon"),
    "a worker of the cluster": _service("spark-worker-2"),
    "the master": _service("spark-master"),
}
CLUSTER_KINDS: dict[str, Fault] = {
    **{f"{name} killed": functools.partial(killed, find) for name, find in _PARTS.items()},
    **{f"{name} frozen": functools.partial(frozen, find) for name, find in _PARTS.items()},
}
