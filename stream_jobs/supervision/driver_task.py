"""What a job's process does beside its query."""

from collections.abc import Mapping
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

    def hear(self, observed: Mapping[str, int | None]) -> None:
        """What a batch has observed of itself."""

    def step(self) -> None:
        """Several times a second, while the query runs."""

    def numbers(self) -> Mapping[str, Any]:
        """What else the job says of itself."""
        return {}
