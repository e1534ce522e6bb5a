"""One Spark session, with the settings that the promises rest on written out."""

import atexit
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from pyspark.sql import SparkSession

from shared.settings import JobSettings
from stream_jobs.spark_helpers import start as helpers
from stream_jobs.supervision.cluster import cluster_config
from stream_jobs.supervision.own_page import own_page
from stream_jobs.supervision.stored_checkpoints import stored_checkpoints

# a JVM that starts uses what it gets, however little that is; one that only waits, 0.0002 of a core
_STILL_S, _STILL_CORES = 20.0, 0.005
_ANSWERS_WITHIN_S = 90.0  # a cluster's master
_ROOT = Path(__file__).parents[2]
# as much as a socket's path may have, less the name that Spark gives it
_SOCKETS_FOLDER_BYTES_MAX = 60
_sockets_made: list[Path] = []
_STREAMING = "spark.sql.streaming"
_STATE = f"{_STREAMING}.stateStore"
_LOCAL_FILES = "org.apache.spark.sql.execution.streaming.checkpointing"

_ALWAYS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.python.daemon.module": "stream_jobs.supervision.worker_daemon",
    # some plans ask for it and some do not: each kind would have a daemon of its own, and what was
    # warmed up would be the other one
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.scheduler.mode": "FAIR",  # one job's backlog must not starve the others
    # within a batch a stage's second run looks like its first to forward, which must not send what
    # is wanted at most once; of a batch that begins again it knows
    "spark.stage.maxConsecutiveAttempts": "1",
    # retry asks for its batch's time, and for no batch without records: see `waker.py`
    f"{_STREAMING}.noDataMicroBatches.enabled": "false",
    f"{_STREAMING}.stopTimeout": "10s",  # then the job asks again; its claim is renewed between
    f"{_STATE}.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE}.rocksdb.boundedMemoryUsage": "true",
    f"{_STATE}.rocksdb.maxMemoryUsageMB": "256",
    # nobody asks how many keys there are, and to know it costs a read before each write
    f"{_STATE}.rocksdb.trackTotalNumberOfRows": "false",
    f"{_STATE}.checkpointFormatVersion": "2",
    f"{_STATE}.rowChecksum.enabled": "true",
    # on a local disk Spark would fork a chmod for every checkpoint file: 60 to 300 ms a batch
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    f"{_STREAMING}.checkpointFileManagerClass": (
        f"{_LOCAL_FILES}.FileSystemBasedCheckpointFileManager"
    ),
}

_ADDED_TO = "spark.archives", "spark.jars"
_HERE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

_JVM = ("-XX:+UseSerialGC",)
# Records do not pass through this JVM, so none of its code is worth the dear second compiler, nor
# the counting for it: without both, and without threads for the collector, a minute's backlog takes
# a tenth less of the processor. After some minutes it is no more than even. Views are another
# matter: with it, a backlog of theirs goes twice as fast.
_JVM_PAST_RECORDS = ("-XX:TieredStopAtLevel=1",)
# Spark asks Arrow for rows that are there, and for their nulls first. Without Arrow's own look at
# both, for each value, a view's backlog goes 3 to 12 % faster.
_JVM_WITH_RECORDS = (
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)


def open_session(
    settings: JobSettings,
    application: str,
    reads: Mapping[str, tuple[str, ...]] | None = None,
    *,
    computes: bool = False,
) -> SparkSession:
    """`reads`: the topics of each of its jobs. `computes`: what is in the records is the business
    of Spark's own engine."""
    # of the C library, for what is neither Java's heap nor Python's: each thread would keep memory
    # of its own, which with a million states came to a quarter of the JVM's
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    scratch = settings.state_dir.absolute() / "spark" / application
    shutil.rmtree(scratch, ignore_errors=True)  # of a process that had no time to tidy up
    temporary = scratch / "tmp"
    temporary.mkdir(parents=True)
    jvm = (*_JVM, *(_JVM_WITH_RECORDS if computes else _JVM_PAST_RECORDS))
    sockets = _sockets_in(scratch)
    if settings.on_cluster:
        where = cluster_config(settings, scratch, reads or {}, jvm)
    else:
        _choose_python()
        where = {**_HERE, **_talks_by(sockets)}
    if sockets is not None:
        helpers.start(sockets)
    config = {
        **_ALWAYS,
        "spark.driver.memory": settings.spark_memory,
        "spark.driver.extraJavaOptions": " ".join(
            [
                f"-Dlog4j2.configurationFile={Path(__file__).parent / 'log4j2.properties'}",
                # a JVM that is killed leaves a copy of RocksDB's library there, and a cluster's
                # driver 350 MB of packages
                f'"-Djava.io.tmpdir={temporary}"',
                *jvm,
            ]
        ),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": str(settings.state_partitions),
        **own_page(settings.spark_ui_port),
        **where,
        **(stored_checkpoints() if settings.checkpoint_store else {}),
    }
    config = with_own(config, settings.spark_conf)
    if folders := settings.spark_jar_folders:
        config["spark.driver.extraClassPath"] = ":".join(f"{folder}/*" for folder in folders)
    builder = SparkSession.builder.master(settings.spark_master).appName(f"headrace-{application}")
    for name, value in config.items():
        builder = builder.config(name, value)
    with _ends_where_it_hangs(settings):
        return builder.getOrCreate()


def with_own(config: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """What an operator sets counts; to what goes to the executors it is added."""
    both = [name for name in _ADDED_TO if name in config and name in own]
    added = {name: f"{config[name]},{own[name]}" for name in both}
    return {**config, **own, **added}


@atexit.register
def tidy_up() -> None:
    """Asked by whoever ends without more ado, too. What is left in its state folder a process finds
    at its next start; its sockets may lie elsewhere."""
    helpers.end()
    for folder in _sockets_made:
        shutil.rmtree(folder, ignore_errors=True)


def _talks_by(sockets: Path | None) -> dict[str, str]:
    """Between the JVM and its Python processes, sockets that have a path. In a connection by TCP a
    short message waits for the answer to the one before, and that for 40 ms, once a task."""
    if sockets is None:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(sockets),
    }


def _sockets_in(scratch: Path) -> Path | None:
    """None where there is no folder for them."""
    own = sha256(os.fsencode(scratch)).hexdigest()[:16]
    folders = scratch / "sockets", Path(tempfile.gettempdir()) / f"headrace-{own}"
    short = [one for one in folders if len(os.fsencode(one)) <= _SOCKETS_FOLDER_BYTES_MAX]
    if not short:
        return None
    folder = short[0]
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700)
    except OSError:
        return None  # somebody else's: TCP does it, too
    _sockets_made.append(folder)
    return folder


@contextmanager
def _ends_where_it_hangs(settings: JobSettings) -> Iterator[None]:
    """Spark waits for ever for a JVM that could not write down where it listens, as on a full disk;
    that one does nothing more, and does not end. Whoever keeps this process up starts both anew."""
    is_up = threading.Event()
    if settings.on_cluster:
        still_s, why = _ANSWERS_WITHIN_S, f"does {settings.spark_master} answer, with this secret?"
    else:
        still_s, why = _STILL_S, "is there room on the disk?"
    threading.Thread(target=_watch, args=(is_up, still_s, why), daemon=True).start()
    try:
        yield
    finally:
        is_up.set()


def _watch(is_up: threading.Event, still_s: float, why: str) -> None:
    used_s = 0.0
    while not is_up.wait(still_s):
        before_s, used_s = used_s, _used_by_children_s()
        if used_s - before_s < still_s * _STILL_CORES:
            print(
                f"Spark's JVM has not come up and has done nothing for {still_s:g} s ({why})",
                file=sys.stderr,
                flush=True,
            )
            os._exit(1)


def _used_by_children_s() -> float:
    """The time of processors that children have used."""
    used, ticks_a_s = 0, os.sysconf("SC_CLK_TCK")
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                used += int(fields[11]) + int(fields[12])
    return used / ticks_a_s


def _choose_python() -> None:
    """Chooses the Python of the processes that Spark starts here: it can import us, and is the
    driver's own."""
    paths = [str(_ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    path = os.pathsep.join(dict.fromkeys(paths))
    os.environ["PYTHONPATH"] = os.environ["HEADRACE_WORKERS_PATH"] = path
    os.environ["HEADRACE_WORKERS_PYTHON"] = sys.executable
    os.environ["PYSPARK_PYTHON"] = str(Path(__file__).parent / "worker_python")
