"""How a job does what is wanted of it."""

from typing import NamedTuple, Protocol

from shared.errors import CheckpointsAwayError
from shared.published.job_orders import JobOrder, Wanted, can_be_rebuilt
from stream_jobs.guards.checkpoint_folder import CheckpointFolder, remove, replace
from stream_jobs.job_orders.feed import OrdersUnknownError

_BEGUN = b"begun "


class Run(Protocol):
    """A job's query, and whoever starts it."""

    @property
    def has_failed(self) -> bool: ...

    def end(self, state: str, why: str) -> bool:
        """Where it runs: whether it has ended. The next one begins as soon as it may, whatever kept
        this one down."""

    def holds_claim(self) -> bool:
        """Whether the checkpoint is this process's now, and no other one's that runs the job."""


class Orders(Protocol):
    def of(self, job: str) -> JobOrder | None: ...

    def resumes(self, job: str) -> int: ...


class _Rebuilt(NamedTuple):
    """Which order was done last, as a file beside the checkpoint says it."""

    at_ms: int = 0
    is_begun: bool = False  # and not finished: what is left of the checkpoint is no state


class StandingOrder:
    def __init__(self, job: str, orders: Orders, checkpoint: CheckpointFolder) -> None:
        self._job, self._orders = job, orders
        self._checkpoint = checkpoint
        self._note = checkpoint.with_name(f"{checkpoint.name}.rebuilt")
        self._is_paused = False
        self._resumes: int | None = None
        self._rebuilt: _Rebuilt | None = None

    def keeps_down(self, run: Run) -> bool:
        """Whether no query may run now. Whatever is wanted is done."""
        try:
            order = self._orders.of(self._job)
        except OrdersUnknownError:
            return True  # its breaker tells it
        before, self._resumes = self._resumes, self._orders.resumes(self._job)
        if order is not None and order.order is Wanted.PAUSE:
            self._is_paused = True
            run.end("paused", order.told)
            return True
        if self._is_paused:
            if not run.end("restarting", "it was paused"):
                return True
            self._is_paused = False
        elif before not in (None, self._resumes) and run.has_failed:
            run.end("restarting", "it is to go on")
        # anybody may write the record, and what other jobs keep is nowhere else
        return can_be_rebuilt(self._job) and not self._is_made_anew(order, run)

    def _is_made_anew(self, order: JobOrder | None, run: Run) -> bool:
        """Also where that was not wanted. Once: the order stands on its topic until another one
        takes its place."""
        wanted = order if order is not None and order.order is Wanted.REBUILD else None
        try:
            if self._is_done(wanted):
                return True
            if not run.holds_claim():
                return True  # then it does not begin, either
            self._rebuilt = _read(self._note)  # perhaps another process has done it
            if self._is_done(wanted):
                return True
            told = f", {wanted.told}" if wanted else ""
            if not run.end("restarting", f"it makes its state anew{told}"):
                return False
            at_ms = wanted.at_ms if wanted else self._rebuilt.at_ms
            replace(self._note, _BEGUN + str(at_ms).encode())
            self._rebuilt = _Rebuilt(at_ms, is_begun=True)
            remove(self._checkpoint)
            replace(self._note, str(at_ms).encode())
            self._rebuilt = _Rebuilt(at_ms)
        except (CheckpointsAwayError, OSError) as error:  # it is asked again
            is_wanted = wanted is not None or (self._rebuilt is not None and self._rebuilt.is_begun)
            what = "its state is to be made anew" if is_wanted else "its checkpoint is looked for"
            run.end("restarting", f"{what}: {error}")
            return False
        return True

    def _is_done(self, wanted: JobOrder | None) -> bool:
        if self._rebuilt is None:
            self._rebuilt = _read(self._note)
        if self._rebuilt.is_begun:
            return False
        return wanted is None or wanted.at_ms == self._rebuilt.at_ms


def _read(note: CheckpointFolder) -> _Rebuilt:
    try:
        raw = note.read_bytes()
        return _Rebuilt(int(raw.removeprefix(_BEGUN)), raw.startswith(_BEGUN))
    except (FileNotFoundError, ValueError):
        return _Rebuilt()
