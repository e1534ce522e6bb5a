"""The jobs: a row for each, of what its folder has for the process that runs it. Each view of the
flow is a job of its own.

What starts a job and what it emits says the flow (`shared/flow_table.py`). The Python workers of
all jobs come from one process that imports this table before it forks them.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from shared.flow_table import Flow, Job
from shared.settings import JobSettings
from stream_jobs.aggregate import job as aggregate
from stream_jobs.enrich import job as enrich
from stream_jobs.enrich.lane_guard import LaneGuard
from stream_jobs.fold import job as fold
from stream_jobs.fold.fold_task import FoldTask
from stream_jobs.forward import job as forward
from stream_jobs.forward.hook_watch import HookWatch
from stream_jobs.parquet import job as parquet
from stream_jobs.persist import job as persist
from stream_jobs.persist.waiting_lane import WaitingLane
from stream_jobs.retry import job as retry
from stream_jobs.retry.waker import Waker
from stream_jobs.search import job as search
from stream_jobs.supervision.driver_task import DriverTask
from stream_jobs.supervision.status import Report
from stream_jobs.supervision.warm_up import Nothing
from stream_jobs.views import job as views


class JobRow(NamedTuple):
    build: Callable[[SparkSession, JobSettings, Flow, Report], DataStreamWriter]
    # its plan with no records, run once so that the first batch is quick; None: it has nothing to
    # warm up
    on_nothing: Callable[[Nothing, JobSettings], DataFrame] | None = None
    # its task on the driver, beside the query
    driver_task: Callable[[JobSettings, Flow], DriverTask] = lambda *_: DriverTask()
    through_outbox: bool = False  # what it emits is the relay's to write
    output_mode: str = "update"

    def writes(self, job: Job) -> tuple[str, ...]:
        """In an order that others rely on."""
        return () if self.through_outbox else (*job.emits, *job.waits_in, *job.starts_from)


JOBS = {
    "enrich": JobRow(enrich.build, enrich.on_nothing, driver_task=LaneGuard),
    "retry": JobRow(retry.build, retry.on_nothing, driver_task=Waker),
    "fold": JobRow(fold.build, fold.on_nothing, driver_task=FoldTask),
    "aggregate": JobRow(aggregate.build, aggregate.on_nothing, output_mode=aggregate.OUTPUT_MODE),
    "persist": JobRow(persist.build, driver_task=WaitingLane, through_outbox=True),
    "forward": JobRow(forward.build, driver_task=HookWatch),
    "parquet": JobRow(parquet.build),
    "search": JobRow(search.build),
}


def rows_of(flow: Flow) -> dict[str, JobRow]:
    """The rows of all jobs that the flow has."""
    its_views = {
        row.job: JobRow(partial(views.build, row), driver_task=partial(views.ViewCounts, row))
        for row in flow.views
    }
    every = {**JOBS, **its_views}
    return {job.name: every[job.name] for job in flow.jobs()}
