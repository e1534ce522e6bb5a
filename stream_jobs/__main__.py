"""`python -m stream_jobs JOB…`: the jobs by name, or `all` of them in one Spark process."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import SparkSession

from clients.kafka import create_topics
from clients.kafka.offsets import LogOffsets
from clients.postgres import master_data, schema, store
from shared.consumer_groups import of_job
from shared.errors import AnotherCopyError, CheckpointsAwayError, StoreAwayError, WrongViewError
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.kafka_access import KafkaAwayError
from shared.model import VIEW_JOB
from shared.settings import WRONG_SETTINGS, JobSettings, explain
from shared.tables.view_tables import table_of
from stream_jobs import relay
from stream_jobs.guards import checkpoint_offsets
from stream_jobs.guards.checkpoint_folder import checkpoints_of
from stream_jobs.guards.lease import RUN, stand_by, stand_by_no_more
from stream_jobs.guards.single_copy import OneCopy
from stream_jobs.guards.standby import application_of_its_own, copy_of, wait_for_turn
from stream_jobs.jobs import JOBS, rows_of
from stream_jobs.ledger import keeper
from stream_jobs.orders.feed import OrderFeed
from stream_jobs.sources import reader as sources
from stream_jobs.supervision.application import NoApplicationError
from stream_jobs.supervision.session import open_session, tidy_up
from stream_jobs.supervision.status import StatusReporter
from stream_jobs.supervision.supervise import supervise
from stream_jobs.supervision.supervisor import JobRun
from stream_jobs.supervision.warm_up import warm_up

_LOOK_EVERY_S = 1.0
_VIEWS = "views"
_OTHERS = "all", "relay", "topics", "migrate"
USAGE = f"""usage: python -m stream_jobs {"|".join((*JOBS, _VIEWS, *_OTHERS))}

  {", ".join(JOBS)}   one Spark application; several names run in one process, `all` runs all
  {_VIEWS}                   the flow's views; one alone is called {VIEW_JOB}NAME
  relay                   PostgreSQL's outbox -> Kafka, a plain process; it keeps the ledger, and
                          reads master data from stores of yours, too
  topics                  makes the flow's topics and ends
  migrate                 brings the schema up, makes the tables of views, seeds the sample devices
                          for a flow that looks devices up, and ends"""


def main(names: Sequence[str]) -> int:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of every call back from Spark
    known = {*JOBS, _VIEWS, *_OTHERS}
    if not names or not all(name in known or name.startswith(VIEW_JOB) for name in names):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        settings = JobSettings()
        flow = load_flow(settings.flow)
    except WRONG_SETTINGS as error:
        print(explain(error), file=sys.stderr)
        return 2
    if names == ["topics"] or names == ["migrate"]:
        return _prepare(names[0], settings, flow)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if names == ["relay"]:
        threading.Thread(target=keeper.run, args=(settings, stop), daemon=True).start()
        sources.start(settings, stop)
        relay.run(settings, stop)
        return 0
    declared = [job.name for job in flow.jobs()]
    if _VIEWS in names:
        others = (name for name in names if name != _VIEWS)
        names = [*dict.fromkeys((*others, *(row.job for row in flow.views)))]
        if not names:
            print("this flow has no views", file=sys.stderr)
            return 2
    absent = [name for name in names if name not in (*declared, "all")]
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
    return _run(declared if "all" in names else list(names), settings, flow, stop)


def _prepare(what: str, settings: JobSettings, flow: Flow) -> int:
    try:
        if what == "topics":
            for topic in create_topics.ensure_topics(flow, settings):
                print(f"created {topic}")
        else:
            url = settings.postgres_url.get_secret_value()
            schema.migrate(url, [table_of(row) for row in flow.views if row.row is not None])
            if "device" in flow.master_tables:
                with store.connect(url, "migrate") as connection:
                    master_data.seed(connection)
    except (KafkaAwayError, StoreAwayError, WrongViewError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


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
    warm_up(spark, {name: partial(plan, spark, settings) for name, plan in plans.items()})
    if settings.standby:
        copies = wait_for_turn(offsets, settings, RUN, stop)
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
