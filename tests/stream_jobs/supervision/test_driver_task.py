"""A thread of a job's own, beside its query."""

import threading

from stream_jobs.supervision.driver_task import OwnThread
from tests.kafka_log import eventually


class Work:
    def __init__(self) -> None:
        self.alive: list[threading.Event] = []
        self.begun = 0

    def __call__(self, is_over: threading.Event) -> None:
        self.begun += 1
        self.alive.append(is_over)
        is_over.wait(60)
        self.alive.remove(is_over)


def test_it_works_until_it_is_stopped_and_begins_again() -> None:
    work = Work()
    thread = OwnThread(work)
    assert thread.stop()  # it never began
    for number in (1, 2):
        thread.start()
        thread.start()  # a query that begins again finds it at work
        eventually(lambda count=number: work.begun == count)
        assert len(work.alive) == 1
        eventually(thread.stop)
        assert not work.alive
        assert thread.stop()


def test_one_whose_thread_has_died_begins_again() -> None:
    begun = []
    thread = OwnThread(begun.append)  # it ends at once
    for number in (1, 2):
        thread.start()
        eventually(lambda count=number: len(begun) == count and thread.stop())
