"""How many events came late, or from a device whose clock is off, as fold's batches tell it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import Column, Row, functions

from shared.folding.snapshot import Snapshot
from stream_jobs.supervision.driver_task import DriverTask

COUNTED = ("late", "clock_off")
TOLD_DDL = ", ".join(f"{name} long" for name in COUNTED)


def of(snapshot: Snapshot | None) -> tuple[int, int]:
    return (snapshot.late, snapshot.clock_off) if snapshot else (0, 0)


def rows(counts: tuple[int, int]) -> Iterator[Row]:
    """For Spark; none where there is nothing to count."""
    if any(counts):
        yield Row(**dict(zip(COUNTED, counts, strict=True)))


def observed() -> list[Column]:
    return [functions.expr(f"sum({name}) AS {name}") for name in COUNTED]


class ClockCounts(DriverTask):
    """Since the job's process began."""

    def __init__(self) -> None:
        self._counts = Counter(dict.fromkeys(COUNTED, 0))

    def hear(self, observed: Mapping[str, int | None]) -> None:
        self._counts.update({name: number or 0 for name, number in observed.items()})

    def numbers(self) -> Mapping[str, Any]:
        return {"clocks": dict(self._counts)}
