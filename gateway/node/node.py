"""What the worker processes of a node share, and which of them this one is."""

from typing import NamedTuple

from gateway.node.payload_counts import Counts
from gateway.node.rate_limits import Buckets
from gateway.node.shared_counters import NodeNumbers

WORKERS_READY = "workers_ready"
WORKER_RESTARTS = "worker_restarts"


class SharedMemory(NamedTuple):
    """Its file descriptors, which workers inherit."""

    numbers_fd: int
    buckets_fd: int

    @classmethod
    def for_workers(cls, workers: int) -> "SharedMemory":
        # one row more, for the process that keeps the workers
        return cls(NodeNumbers.memory_to_share(workers + 1), Buckets.memory_to_share())


class Node:
    def __init__(
        self, worker: int = 0, workers: int = 1, shared: SharedMemory | None = None
    ) -> None:
        self.workers = workers
        self.numbers = NodeNumbers(workers + 1, -1 if shared is None else shared.numbers_fd)
        self.row = self.numbers.row(worker)
        self.counts = Counts(self.row)
        self.buckets = Buckets(-1 if shared is None else shared.buckets_fd)
        self.is_ending = False

    def workers_ready(self) -> int:
        return int(self.numbers.sums().get((WORKERS_READY,), 0))
