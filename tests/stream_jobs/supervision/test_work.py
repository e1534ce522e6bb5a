"""A query and its end, without Spark."""

from typing import cast

import pytest
from py4j.protocol import Py4JError

from stream_jobs.guards.single_copy import OneCopy
from stream_jobs.supervision.driver_task import DriverTask
from stream_jobs.supervision.work import Work


class Query:
    """As Spark's own is: whoever has waited 20 s for a batch is told so by an error, and from then
    on it says that it is not active, whatever the batch does."""

    def __init__(self, times_out: int) -> None:
        self.isActive = True
        self.times_out = times_out
        self.stops = 0

    def start(self) -> "Query":
        return self

    def stop(self) -> None:
        self.isActive = False
        self.stops += 1
        if self.stops <= self.times_out:
            raise Py4JError("java.util.concurrent.TimeoutException: Stream Execution thread")


class Copy:
    """Of a job whose lease ends with its query."""

    def end_lease(self) -> None: ...


class Slow(DriverTask):
    """What it has begun takes a while."""

    def __init__(self) -> None:
        self.asked = 0

    def stop(self) -> bool:
        self.asked += 1
        return self.asked > 2


def work(beside: DriverTask | None = None) -> Work:
    return Work("fold", cast(OneCopy, Copy()), beside or DriverTask())


def begun(query: Query, beside: DriverTask | None = None) -> Work:
    one = work(beside)
    one.begin(query)  # type: ignore[arg-type]
    return one


def test_without_a_query_there_is_nothing_to_end() -> None:
    one = work()
    assert one.has_ended()
    assert one.end_query()
    assert one.has_ended()


def test_one_that_has_yet_to_end_is_not_forgotten() -> None:
    query = Query(times_out=2)
    one = begun(query)
    assert one.has_ended()  # nothing was to end
    assert not one.end_query()
    assert (one.query, query.isActive) == (query, False)
    assert not one.has_ended()
    assert one.has_ended()
    assert (one.query, query.stops) == (None, 3)
    assert one.has_ended()
    assert query.stops == 3


def test_what_is_beside_a_query_ends_after_it() -> None:
    """A batch that goes on may need what its driver holds."""
    query, beside = Query(times_out=1), Slow()
    one = begun(query, beside)
    assert not one.end()
    assert beside.asked == 0
    assert not one.has_ended()
    assert (one.query, beside.asked) == (None, 1)
    assert not one.has_ended()
    assert one.has_ended()
    assert beside.asked == 3
    assert one.has_ended()
    assert beside.asked == 3


@pytest.mark.parametrize("is_active", [True, False])
def test_one_that_ended_by_itself_is_waited_for_as_well(is_active: bool) -> None:
    """Spark says that it is over a moment before its thread is."""
    query = Query(times_out=0)
    query.isActive = is_active
    assert begun(query).end_query()
    assert query.stops == 1
