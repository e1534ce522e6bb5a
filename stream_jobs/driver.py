"""One Spark application: its driver runs the jobs that are named, each as a query of its own."""

import os
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import SparkSession

from clients.kafka.offsets import LogOffsets
from shared.consumer_groups import of_job
from shared.errors import AnotherCopyError, CheckpointsAwayError
from shared.flow_table import Flow
from shared.model import VIEW_JOB
from shared.settings import WRONG_SETTINGS, JobSettings, explain
from stream_jobs.guards import checkpoint_offsets
from stream_jobs.guards.checkpoint_folder import checkpoints_of
from stream_jobs.guards.lease import RUN, stand_by, stand_by_no_more
from stream_jobs.guards.single_copy import OneCopy
from stream_jobs.guards.standby import application_of_its_own, copy_of, wait_for_turn
from stream_jobs.job_orders.feed import OrderFeed
from stream_jobs.jobs import JOBS, rows_of
from stream_jobs.supervision.application import NoApplicationError
from stream_jobs.supervision.job_run import JobRun
from stream_jobs.supervision.session import open_session, tidy_up
from stream_jobs.supervision.status import StatusReporter
from stream_jobs.supervision.supervise import supervise
from stream_jobs.supervision.warm_up import Nothing, rehearse, warm_up

_LOOK_EVERY_S = 1.0
_VIEWS, _ALL = "views", "all"
USAGE = f"""usage: python -m stream_jobs {"|".join((*JOBS, _VIEWS, _ALL))}|relay|topics|migrate

  {", ".join(JOBS)}   one Spark application; several names run in one process, `all` runs all
  {_VIEWS}                   the flow's views; one alone is called {VIEW_JOB}NAME
  relay                   PostgreSQL's outbox -> Kafka, a plain process; it keeps the ledger, and
                          reads master data from stores of yours, too
  topics                  makes the flow's topics and ends
  migrate                 brings the schema up, makes the tables of views, seeds the sample devices
                          for a flow that looks devices up, and ends"""


def are_known(names: Sequence[str]) -> bool:
    known = {*JOBS, _VIEWS, _ALL}
    return bool(names) and all(name in known or name.startswith(VIEW_JOB) for name in names)


def drive(names: Sequence[str], settings: JobSettings, flow: Flow, stop: threading.Event) -> int:
    declared = [job.name for job in flow.jobs()]
    if _VIEWS in names:
        others = (name for name in names if name != _VIEWS)
        names = [*dict.fromkeys((*others, *(row.job for row in flow.views)))]
        if not names:
            print("this flow has no views", file=sys.stderr)
            return 2
    absent = [name for name in names if name not in (*declared, _ALL)]
    if absent:
        print(f"{', '.join(absent)}: this flow has no such job", file=sys.stderr)
        return 2
    try:
        settings.make_folders()
    except WRONG_SETTINGS as error:
        print(explain(error), file=sys.stderr)
        return 2
    try:
        if reason := checkpoint_offsets.why_not(checkpoints_of(settings), flow):
            print(reason, file=sys.stderr)
            return 2
    except CheckpointsAwayError as error:
        print(error, file=sys.stderr)
        return 1  # whoever keeps this process up tries again
    return _run(declared if _ALL in names else list(names), settings, flow, stop)


def _run(names: list[str], settings: JobSettings, flow: Flow, stop: threading.Event) -> int:
    jobs, rows = {job.name: job for job in flow.jobs()}, rows_of(flow)
    ignited_by = {name: job.ignited_by for name, job in jobs.items()}
    offsets = {name: LogOffsets(settings.kafka, of_job(name), ignited_by[name]) for name in names}
    application = "-".join(names)
    copies: dict[str, OneCopy] = {}
    try:
        if settings.standby:
            stand_by(settings.checkpoints, names)
            folder = settings.state_dir.absolute() / "spark"
            application = application_of_its_own(application, folder)
        else:
            for name in names:
                copies[name] = copy_of(name, offsets[name], settings, RUN)
                # Spark takes its time to start: until then it is known who else is here
                copies[name].watch()
            _say_restarting(names, settings)
        has_views = any(name.startswith(VIEW_JOB) for name in names)
        reads = {name: ignited_by[name] for name in names}
        spark = open_session(settings, application, reads, computes=has_views)
    except (AnotherCopyError, NoApplicationError) as error:
        print(error, file=sys.stderr)
        return 2
    threading.Thread(target=_end_with_jvm, args=(spark,), daemon=True).start()
    # on a cluster it would wait here, for ever, for executors that others have
    warm = () if settings.on_cluster else names
    plans = {name: plan for name, row in rows.items() if name in warm and (plan := row.on_nothing)}
    warm_up({name: partial(plan, Nothing(spark), settings) for name, plan in plans.items()})
    if settings.standby:
        stream = Nothing(spark, streams=True)
        modes = {name: rows[name].output_mode for name in plans}
        streamed = {name: partial(plan, stream, settings) for name, plan in plans.items()}
        copies = wait_for_turn(offsets, settings, RUN, stop, partial(rehearse, streamed, modes))
        if not copies:
            stand_by_no_more(settings.checkpoints, names)
            tidy_up()
            os._exit(0)
        _say_restarting(names, settings)
    orders = OrderFeed(settings.kafka)
    runs = [
        JobRun(
            name,
            partial(rows[name].build, spark, settings, flow),
            spark,
            settings,
            offsets[name],
            copies[name],
            rows[name].driver_task(settings, flow),
            orders,
            rows[name].writes(jobs[name]),
        )
        for name in names
    ]
    supervise(runs, stop)
    # what is in flight is in the checkpoint; an orderly end of the JVM would only take its time
    displaced = [run.other_copy for run in runs if run.other_copy]
    print(*displaced, sep="\n", end="\n" if displaced else "", file=sys.stderr, flush=True)
    tidy_up()
    os._exit(2 if displaced else 0)


def _say_restarting(names: list[str], settings: JobSettings) -> None:
    """What the last process said of itself must not pass for this one's word."""
    for name in names:
        status = StatusReporter(settings, name)
        status.report("restarting", "Spark starts")
        status.flush()


def _end_with_jvm(spark: SparkSession) -> None:
    """No query can run here without it, or where the cluster has ended the application; whoever
    keeps this process up starts both anew."""
    context = spark.sparkContext
    jvm = getattr(context._gateway, "proc", None)  # none where Spark started Python
    while (jvm is None or jvm.poll() is None) and not _is_over(context):
        time.sleep(_LOOK_EVERY_S)
    print("Spark has ended; its driver cannot go on", file=sys.stderr, flush=True)
    os._exit(1)


def _is_over(context: SparkContext) -> bool:
    try:
        return bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True
