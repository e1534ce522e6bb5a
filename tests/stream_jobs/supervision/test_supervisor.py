"""What a job hears of its batches; the rest of it is in test_job_run, on a real Spark."""

import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql import Row

from clients.kafka.records import Offsets
from stream_jobs.guards.checkpoints import remember_ahead
from stream_jobs.supervision.side_task import Beside
from stream_jobs.supervision.supervisor import JobRun


class Hearing(Beside):
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


def test_each_batch_is_heard_once_and_all_recent_ones_are_written_out_only_for_a_missed_one() -> (
    None
):
    beside, query = Hearing(), Query()
    run = SimpleNamespace(_query=query, _beside=beside, _heard_batch=-1)

    def hear(progress: dict[str, Any]) -> None:
        JobRun._hear(run, progress)  # type: ignore[arg-type]

    for batch in (0, 1, 1, 2):
        hear(_progress(batch))
    hear(_progress(3, rows=0))  # idle: it names the batch that is to come
    hear(_progress(3))
    assert (beside.heard, query.asked) == ([0, 1, 2, 3], 0)
    query.recent = [_progress(batch) for batch in range(7)]
    hear(query.recent[-1])
    assert (beside.heard, query.asked) == ([0, 1, 2, 3, 4, 5, 6], 1)


class Told(SimpleNamespace):
    """As much of a job's run as says how far it is."""

    def __init__(self, checkpoint: Path) -> None:
        self.told: list[Offsets] = []
        self._copy = SimpleNamespace(publish=self.told.append)
        self._checkpoint = checkpoint
        self._published: Offsets = {}
        self._looked_s, self._batch_id = 0.0, -1
        self._numbers: dict[str, Any] = {}
        self._publish = lambda offsets: JobRun._publish(self, offsets)  # type: ignore[arg-type]
        self._hear = lambda _: None

    def look(self, *, seconds_later: float = 1.0) -> None:
        self._looked_s = time.monotonic() - seconds_later
        JobRun._publish_ahead(self)  # type: ignore[arg-type]

    def end_batch(self, batch: int, start: int, end: int) -> None:
        places = {"startOffset": {"t": {"0": start}}, "endOffset": {"t": {"0": end}}}
        spent_ms = {"triggerExecution": 2_000}
        progress = {"batchId": batch, "sources": [places], "durationMs": spent_ms}
        self._news = lambda: progress
        JobRun._publish_progress(self)  # type: ignore[arg-type]

    @property
    def rows_per_s(self) -> float:
        return round(self._numbers["rows_per_s"])


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
