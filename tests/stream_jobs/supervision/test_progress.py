"""How far a job is, and what it hears of its batches; the rest is in test_job_run, on a real
Spark."""

import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql import Row

from clients.kafka.records import Offsets
from stream_jobs.guards.checkpoint_offsets import remember_ahead
from stream_jobs.supervision.driver_task import DriverTask
from stream_jobs.supervision.progress import Progress, records_of


class Hearing(DriverTask):
    def __init__(self) -> None:
        self.heard: list[int | None] = []

    def hear(self, observed: Mapping[str, int | None]) -> None:
        self.heard.append(observed["batch"])


class Query:
    def __init__(self) -> None:
        self.recent: list[dict[str, Any]] = []
        self.asked = 0

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 - Spark's name
        self.asked += 1
        return self.recent


def _progress(batch: int, rows: int = 1) -> dict[str, Any]:
    observed = {"job": Row(batch=batch)} if rows else {}
    places = {"startOffset": f'{{"t":{{"0":{batch}}}}}', "endOffset": {"t": {"0": batch + rows}}}
    return {"batchId": batch, "sources": [places], "observedMetrics": observed}


def test_each_batch_is_heard_once_and_all_recent_ones_are_written_out_only_for_a_missed_one(
    tmp_path: Path,
) -> None:
    beside, query = Hearing(), Query()
    run = Progress("job", tmp_path, SimpleNamespace(), beside)  # type: ignore[arg-type]

    def hear(progress: dict[str, Any]) -> None:
        run._hear(query, progress)  # type: ignore[arg-type]

    for batch in (0, 1, 1, 2):
        hear(_progress(batch))
    hear(_progress(3, rows=0))  # idle: it names the batch that is to come
    hear(_progress(3))
    assert (beside.heard, query.asked) == ([0, 1, 2, 3], 0)
    query.recent = [_progress(batch) for batch in range(7)]
    hear(query.recent[-1])
    assert (beside.heard, query.asked) == ([0, 1, 2, 3, 4, 5, 6], 1)


class Told(Progress):
    def __init__(self, checkpoint: Path) -> None:
        self.told: list[Offsets] = []
        copy: Any = SimpleNamespace(publish=self.told.append)
        super().__init__("job", checkpoint, copy, DriverTask())

    def look(self, *, seconds_later: float = 1.0) -> None:
        self._looked_s = time.monotonic() - seconds_later
        self.publish_ahead()

    def end_batch(self, batch: int, start: int, end: int) -> None:
        places = {"startOffset": {"t": {"0": start}}, "endOffset": {"t": {"0": end}}}
        progress: dict[str, Any] = {"batchId": batch, "sources": [places], "observedMetrics": {}}
        progress |= {"durationMs": {"triggerExecution": 2_000}}
        said = SimpleNamespace(
            runId=lambda: SimpleNamespace(toString=str),
            batchId=lambda: batch,
            timestamp=lambda: f"of {batch}",
        )
        spark: Any = SimpleNamespace(lastProgress=lambda: said)
        query: Any = SimpleNamespace(_jsq=spark, lastProgress=progress)
        self.publish(query)

    @property
    def rows_per_s(self) -> float:
        return round(self.numbers["rows_per_s"])


def test_a_query_that_reads_several_logs_is_as_far_as_it_is_in_each() -> None:
    begins = [{topic: {"0": 1}} for topic in "ab"]
    ends = [{topic: {"0": end}} for topic, end in (("a", 4), ("b", 3))]
    sources = [
        {"startOffset": begin, "endOffset": end} for begin, end in zip(begins, ends, strict=True)
    ]
    assert records_of({"sources": sources}) == 5


def test_what_is_done_ahead_of_batches_is_told_once_and_not_taken_back(tmp_path: Path) -> None:
    run = Told(tmp_path)
    run.look()
    assert run.told == []
    run.end_batch(0, 0, 10)
    assert (run.told, run.rows_per_s) == ([{"t": {0: 10}}], 5)
    remember_ahead(tmp_path, {"t": {0: 50}})
    run.look(seconds_later=0.5)
    run.look()
    assert (run.told[1:], run.rows_per_s) == ([{"t": {0: 50}}], 80)
    # of a batch that has stayed, of which Spark knows but the beginning
    run.end_batch(1, 10, 40)
    assert (run.told[-1], run.rows_per_s) == ({"t": {0: 50}}, 80)
    run.end_batch(2, 40, 60)
    assert (run.told[-1], run.rows_per_s) == ({"t": {0: 60}}, 5)
