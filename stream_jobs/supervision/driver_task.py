"""What a job's process does beside its query."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from clients.kafka.records import Offsets


class DriverTask:
    """This one does nothing. All is called by the thread that looks after the query; what asks
    Kafka may raise KafkaException."""

    def rests(self) -> str:
        """Why the query need not run at all now; empty: it has to. Asked several times a second."""
        return ""

    def begin_rest(self) -> None:
        """No query runs. Told as long as it rests."""

    def start(self) -> Offsets | None:
        """Before each start of the query: where it begins, if not where its checkpoint or its last
        published offsets say."""
        return None

    def stop(self) -> bool:
        """The job pauses, or is another copy's, and its query has ended: nothing may be done until
        `start`. Whether nothing is; else it is asked again. Not to be waited in."""
        return True

    def hear(self, observed: Mapping[str, int | None]) -> None:
        """What a batch has observed of itself."""

    def step(self) -> None:
        """Several times a second, while the query runs."""

    def numbers(self) -> Mapping[str, Any]:
        """What else the job says of itself."""
        return {}


class OwnThread:
    """Works beside the query until the job pauses. A query that begins again finds it at work."""

    def __init__(self, work: Callable[[threading.Event], None]) -> None:
        """`work`: until the event is set."""
        self._work = work
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()

    def start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._is_over = threading.Event()
            self._thread = threading.Thread(target=self._work, args=(self._is_over,), daemon=True)
            self._thread.start()

    def stop(self) -> bool:
        """Whether it has. What is under way comes to its end."""
        self._is_over.set()
        return self._thread is None or not self._thread.is_alive()
