"""The tree of what a job can raise: whole, drawn as it is, and known to the driver by its text."""

import importlib
import pkgutil
import re
import traceback
from collections.abc import Iterator
from types import ModuleType

import pytest

import clients
import shared
import stream_jobs
from shared import errors
from shared.errors import (
    AnotherCopyError,
    JobError,
    RestartError,
    StaleMasterDataError,
    StopError,
    StoreAwayError,
    WaitError,
    by_name,
)
from stream_jobs.supervision.failure import judge

KINDS = (WaitError, RestartError, StopError)
EACH = [(kind, one) for kind in KINDS for one in by_name(kind).values()]

# what no job's query ends by, and why
NOT_OF_A_JOB = {
    "BadRowError": "an answer to who sets a row, or a refusal of one of a source",
    "DeadProducerError": "the relay makes another producer",
    "KafkaAwayError": "ends the command that makes topics",
    "MasterDataError": "an answer to an operator's command",
    "MissingMasterData": "an outcome of a payload: it waits in the lane",
    "NotYet": "an outcome of a payload: it waits in the lane",
    "NoAnswerError": "an outcome of a request: its payloads wait in the lane",
    "NoEvent": "an outcome of a record: it is a dead letter",
    "Rejected": "an outcome of a payload: it is a dead letter",
    "OrdersUnknownError": "no query has begun yet: its supervisor asks again",
    "RefusedError": "an answer that a hook has not given: it is tried again",
    "RunExistsError": "an answer to an operator's command",
    "SourceAwayError": "the reader of a source tries again",
    "UndecodableError": "an outcome of a payload: it is a dead letter",
    "UnknownSchemaError": "an outcome of a payload: it waits, or is a dead letter",
    "UnreadableError": "an outcome of a record of a source: its row is refused",
    "UnknownVersionError": "an outcome of a payload: it is a dead letter",
    "WrongSetting": "ends a process before it has a job",
    "NoApplicationError": "no job has begun yet: what is set has to be mended",
    "UnfitError": "an outcome of a record: it is a dead letter",
}


def told_by_a_worker(error: BaseException) -> str:
    """As Spark hands it to the driver."""
    raised = "".join(traceback.format_exception_only(error))
    return (
        "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent "
        f'call last):\n  File "worker.py", line 1, in main\n{raised}\n'
        "\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:1)\n"
    )


def one_of(error: type[JobError]) -> JobError:
    return error.__new__(error, "in words")


@pytest.mark.parametrize(("kind", "error"), EACH, ids=lambda one: one.__name__)
def test_what_becomes_of_the_job_is_what_its_class_says(
    kind: type[JobError], error: type[JobError]
) -> None:
    failure = judge(told_by_a_worker(one_of(error)))
    assert (failure.waits, failure.stops) == (kind is WaitError, kind is StopError)
    assert failure.store_away == issubclass(error, StoreAwayError)
    assert failure.other_copy == issubclass(error, AnotherCopyError)
    assert failure.reason.removeprefix(f"{error.__name__}: ") == "in words"


@pytest.fixture
def renamed() -> Iterator[type[JobError]]:
    name = StaleMasterDataError.__name__
    StaleMasterDataError.__name__ = StaleMasterDataError.__qualname__ = "OldDataError"
    yield StaleMasterDataError
    StaleMasterDataError.__name__ = StaleMasterDataError.__qualname__ = name


def test_a_class_with_another_name_is_known_by_that(renamed: type[JobError]) -> None:
    told = told_by_a_worker(one_of(renamed))
    assert "shared.errors.OldDataError: in words" in told
    assert judge(told).waits


def test_the_kinds_themselves_are_never_taken_for_a_name() -> None:
    told = told_by_a_worker(type("EmergencyStopError", (Exception,), {})("of a user's own code"))
    assert not judge(told).stops


def modules_of(package: ModuleType) -> Iterator[str]:
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if "migrations" not in found.name and not found.name.endswith("__main__"):
            yield found.name


def exceptions() -> set[type[BaseException]]:
    for package in (shared, clients, stream_jobs):
        for name in modules_of(package):
            importlib.import_module(name)
    found: set[type[BaseException]] = set()
    to_visit: list[type[BaseException]] = [Exception]
    while to_visit:
        new = {*to_visit.pop().__subclasses__()} - found
        found |= new
        to_visit += new
    return {
        one for one in found if one.__module__.split(".")[0] in ("shared", "clients", "stream_jobs")
    }


def test_each_exception_that_a_job_can_raise_is_in_the_tree() -> None:
    outside = {one.__name__ for one in exceptions() if not issubclass(one, JobError)}
    assert outside == NOT_OF_A_JOB.keys(), (
        "derive it from WaitError, RestartError or StopError in shared/errors.py, or say in "
        "NOT_OF_A_JOB why no query ends by it"
    )


def test_the_whole_tree_is_one_module_and_each_leaf_has_one_kind() -> None:
    tree = [one for one in exceptions() if issubclass(one, JobError)]
    assert {one.__module__ for one in tree} == {errors.__name__}
    leaves = [error for _, error in EACH]
    assert len(leaves) == len({*leaves})
    assert {*leaves, *KINDS, JobError} == {*tree}


def test_the_picture_shows_the_tree() -> None:
    drawn: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"    ([│├└─ ]*)([A-Z]\w+Error)\b", line):
            drawn.append((len(match[1]) // 4, match[2]))

    def below(kind: type[JobError], depth: int) -> Iterator[tuple[int, str]]:
        yield depth, kind.__name__
        for narrower in kind.__subclasses__():
            yield from below(narrower, depth + 1)

    assert drawn == [*below(JobError, 0)]
