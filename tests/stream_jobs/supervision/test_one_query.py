"""A query and its end, without Spark."""

import pytest
from py4j.protocol import Py4JError

from stream_jobs.supervision.one_query import OneQuery


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


def begun(query: Query) -> OneQuery:
    one = OneQuery("fold")
    one.begin(query)  # type: ignore[arg-type]
    return one


def test_without_a_query_there_is_nothing_to_end() -> None:
    one = OneQuery("fold")
    assert one.end()
    assert (one.running, one.is_ending) == (None, False)


def test_one_that_has_yet_to_end_is_not_forgotten() -> None:
    query = Query(times_out=2)
    one = begun(query)
    assert not one.end()
    assert (one.running, one.is_ending, query.isActive) == (query, True, False)
    assert not one.end()
    assert one.end()
    assert (one.running, one.is_ending, query.stops) == (None, False, 3)


@pytest.mark.parametrize("is_active", [True, False])
def test_one_that_ended_by_itself_is_waited_for_as_well(is_active: bool) -> None:
    """Spark says that it is over a moment before its thread is."""
    query = Query(times_out=0)
    query.isActive = is_active
    assert begun(query).end()
    assert query.stops == 1
