"""What a job hears of its batches; the rest of it is in test_job_run, on a real Spark."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from pyspark.sql import Row

from stream_jobs.beside import Beside
from stream_jobs.supervisor import JobRun


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
