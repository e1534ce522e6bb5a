"""What can end a job's query, and what becomes of the job then. Pure.

    JobError
    ├── WaitError       the job waits for something outside, and tries again
    │   ├── StaleMasterDataError
    │   ├── StoreAwayError
    │   │   └── StoreSlowError
    │   ├── CheckpointsAwayError
    │   ├── LeaseEndedError
    │   ├── UnreadableHookError
    │   └── StalledError
    ├── RestartError    the job tries again; any other exception does the same
    │   ├── RowRefusedError
    │   ├── LogCutError
    │   ├── AddFailedError
    │   ├── IndexGoneError
    │   └── InterruptedByStopError
    └── StopError       the job stays down, a person has to look
        ├── AnotherCopyError
        ├── LaneLeftError
        ├── NoServerError
        ├── OtherLogError
        └── WrongViewError

From a worker process Spark brings an exception to the driver as text alone: there
`supervision/failure.py` knows it by its class's name, which it takes from this tree.
"""


class JobError(Exception):
    """Whatever of the jobs' own can end a query."""


class WaitError(JobError):
    """Something outside is not there, and will come back."""


class StaleMasterDataError(WaitError):
    """What is known is older than the settings allow, or is not known at all."""


class StoreAwayError(WaitError):
    """The store cannot do it now; nothing is wrong with the data."""

    def __init__(self, words: str, sqlstate: str = "") -> None:
        """`sqlstate`: where the store has answered."""
        super().__init__(words)
        self.sqlstate = sqlstate


class StoreSlowError(StoreAwayError):
    """It did not answer in time: less at once may go."""


class CheckpointsAwayError(WaitError):
    """The object store that has the checkpoints does not answer, or does not let us in."""


class LeaseEndedError(WaitError):
    """Kafka has not confirmed lately that this copy of the job is the one."""


class UnreadableHookError(WaitError):
    """Whoever goes on without that hook loses what is for it."""


class StalledError(WaitError):
    """Kafka answers, and yet nothing comes or goes: a partition may be without a leader."""


class RestartError(JobError):
    """The next try may do better."""


class RowRefusedError(RestartError):
    """The store does not take this row."""

    def __init__(self, sqlstate: str, detail: str, *, may_pass: bool = False) -> None:
        """`may_pass`: it may take the very same row later."""
        super().__init__(f"{sqlstate}: {detail}")
        self.sqlstate = sqlstate
        self.detail = detail
        self.may_pass = may_pass


class LogCutError(RestartError):
    """A log ends before what was read, or planned, of it."""


class AddFailedError(RestartError):
    """A mistake in an aggregate's own code that no single member is to blame for."""


class IndexGoneError(RestartError):
    """Somebody has deleted a search index: it is made anew at the next start, of all states."""


class InterruptedByStopError(RestartError):
    """The batch is not done; it comes again at the next start."""


class StopError(JobError):
    """It would be the same again, or worse."""


class AnotherCopyError(StopError):
    """This copy must not work; the words say which one does."""


class LaneLeftError(StopError):
    """Work waits, and the flow has no job any more that would do it."""


class NoServerError(StopError):
    """No setting says which server a job is to write to."""


class OtherLogError(StopError):
    """A person has to decide what becomes of the records that are gone. `begin_at` is where those
    begin that are there, by topic, of the partitions in question."""

    def __init__(self, words: str, begin_at: dict[str, dict[int, int]]) -> None:
        super().__init__(words)
        self.begin_at = begin_at


class WrongViewError(StopError):
    """A view's query is none that can be kept up to date, or not the one its rows were made by; or
    its contract is not that of its rows."""


def by_name(kind: type[JobError]) -> dict[str, type[JobError]]:
    """All classes of this kind that can be raised: those below it."""
    found: dict[str, type[JobError]] = {}
    for narrower in kind.__subclasses__():
        found |= {narrower.__name__: narrower} | by_name(narrower)
    return found
