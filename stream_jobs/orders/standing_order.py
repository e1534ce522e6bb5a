"""How a job does what is wanted of it."""

from contextlib import suppress
from typing import Protocol

from shared.errors import CheckpointsAwayError
from shared.published.job_orders import JobOrder, Wanted, can_be_rebuilt
from stream_jobs.guards.checkpoint_folder import CheckpointFolder, remove, replace
from stream_jobs.orders.feed import OrdersUnknownError


class Run(Protocol):
    """A job's query, and whoever starts it."""

    def end(self, state: str, why: str) -> None:
        """Where it runs. The next one begins as soon as it may, whatever kept this one down."""


class Orders(Protocol):
    def of(self, job: str) -> JobOrder | None: ...


class StandingOrder:
    def __init__(self, job: str, orders: Orders, checkpoint: CheckpointFolder) -> None:
        self._job, self._orders = job, orders
        self._checkpoint = checkpoint
        self._done = checkpoint.with_name(f"{checkpoint.name}.rebuilt")
        self._is_paused = False
        self._rebuilt_ms: int | None = None

    def keeps_down(self, run: Run, *, is_the_copy: bool) -> bool:
        """Whether no query may run now. Whatever is wanted is done. `is_the_copy`: the checkpoint
        is this process's, and no other one's that runs the job."""
        try:
            order = self._orders.of(self._job)
        except OrdersUnknownError:
            return True  # its breaker tells it
        if order is not None and order.order is Wanted.PAUSE:
            self._is_paused = True
            run.end("paused", order.told)
            return True
        if self._is_paused:
            self._is_paused = False
            run.end("restarting", "it was paused")
        is_to_rebuild = order is not None and order.order is Wanted.REBUILD
        # anybody may write the record, and what other jobs keep is nowhere else
        if order is not None and is_to_rebuild and is_the_copy and can_be_rebuilt(self._job):
            self._rebuild(order, run)
        return False

    def _rebuild(self, order: JobOrder, run: Run) -> None:
        """Once: the order stands on its topic until another one takes its place."""
        with suppress(CheckpointsAwayError):  # it is asked again
            if self._rebuilt_ms is None:
                self._rebuilt_ms = _time_in(self._done)
            if order.at_ms == self._rebuilt_ms:
                return
            run.end("restarting", f"it makes its state anew, {order.told}")
            remove(self._checkpoint)
            replace(self._done, str(order.at_ms).encode())
            self._rebuilt_ms = order.at_ms


def _time_in(file: CheckpointFolder) -> int:
    try:
        return int(file.read_bytes())
    except (OSError, ValueError):
        return 0
