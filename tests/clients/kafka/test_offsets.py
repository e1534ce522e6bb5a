import time
from pathlib import Path
from typing import Any

import pytest

from clients.kafka.offsets import Range, offset_ranges


class Answers:
    """A consumer that takes its time, and answers None when it was given less."""

    def __init__(self, takes_s: float) -> None:
        self.takes_s = takes_s

    def get_watermark_offsets(self, _place: Any, timeout_s: float) -> tuple[int, int] | None:
        time.sleep(min(self.takes_s, timeout_s))
        return (0, 3) if timeout_s > self.takes_s else None


def test_ranges_are_those_of_each_partition() -> None:
    consumer: Any = Answers(0)
    ranges = offset_ranges(consumer, [("a", 0), ("a", 1)], 1.0)
    assert ranges == {("a", 0): Range(0, 3), ("a", 1): Range(0, 3)}


def test_the_deadline_is_that_of_all_partitions_together() -> None:
    begun_s = time.monotonic()
    consumer: Any = Answers(0.05)
    with pytest.raises(TimeoutError):
        offset_ranges(consumer, [("a", p) for p in range(100)], 0.2)
    assert time.monotonic() - begun_s < 0.5


def test_no_admin_client_lives_in_the_gateways_own_process() -> None:
    # an admin request whose broker goes away can abort its process
    folder = Path(__file__).parents[3] / "gateway"
    users = {p.name for p in folder.rglob("*.py") if "confluent_kafka.admin" in p.read_text()}
    assert users == {"topics.py"}
