"""Calls that come later, in their order; what was taken back does not come."""

import os
import threading
import time

import pytest

from shared.machine.timers import Timers


def test_calls_come_when_they_are_due_the_first_one_first() -> None:
    timers, came, done = Timers(), list[str](), threading.Event()
    timers.call_later(0.10, lambda: (came.append("late"), done.set())[0])
    timers.call_later(0.02, lambda: came.append("soon"))
    taken_back = timers.call_later(0.05, lambda: came.append("never"))
    taken_back()
    taken_back()  # twice does no harm
    assert done.wait(30)
    assert came == ["soon", "late"]


def test_one_that_is_due_earlier_wakes_the_thread_that_waits_for_a_later_one() -> None:
    timers, soon = Timers(), threading.Event()
    timers.call_later(60, lambda: None)
    time.sleep(0.05)
    timers.call_later(0.01, soon.set)
    assert soon.wait(30)


def test_a_call_that_fails_keeps_no_other_from_coming() -> None:
    timers, came = Timers(), threading.Event()
    timers.call_later(0.01, lambda: 1 // 0)
    timers.call_later(0.02, came.set)
    assert came.wait(30)


def test_many_that_are_taken_back_leave_nothing() -> None:
    timers = Timers()
    for _ in range(5_000):
        timers.call_later(3_600, lambda: None)()
    assert not timers._calls
    assert len(timers._due) < 2_000


@pytest.mark.slow
def test_a_child_of_the_process_has_calls_of_its_own() -> None:
    timers = Timers()
    timers.call_later(3_600, lambda: None)  # starts the thread, which no child has
    pid = os.fork()
    if pid == 0:
        came = threading.Event()
        timers.call_later(0.01, came.set)
        os._exit(0 if came.wait(30) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
