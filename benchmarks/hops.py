"""Which hop a sampled stack belongs to: the first of its frames, from within, that a hop names."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

OTHER = "other"

# a part of `class.method`; the first that fits counts, so what is within comes first
JVM = (
    ("state commit", ("RocksDB.commit", "RocksDB.load", "RocksDBFileManager", "Changelog",
                      "StateStore.commit", "RocksDBStateStore.commit", "AsyncLog")),
    ("plan of the logs", ("PythonMicroBatchStream", "PythonStreamingSourceRunner")),
    ("Arrow to Python", ("ArrowWriter", "ArrowStreamWriter", "arrow.ArrowFieldWriter",
                         "vector.ipc.Write", "vector.ipc.ArrowWriter", "PythonArrowInput",
                         "PythonPlainUDF", "BasePythonRunner$Writer", "VectorUnloader",
                         "execution.arrow", "TransformWithStateInPySparkPythonRunner")),
    ("Arrow from Python", ("ArrowStreamReader", "ArrowColumnVector", "PythonArrowOutput",
                           "BasePythonRunner$ReaderIterator", "vectorized.ColumnarBatch",
                           "VectorLoader", "ReaderInputStream")),
    ("shuffle and sort", ("apache.spark.shuffle", "ExternalSorter", "UnsafeExternalRowSorter",
                          "UnsafeExternalSorter", "ShuffleExchange", "spark.storage",
                          "UnsafeRowSerializer", "ShuffledRowRDD", "GroupedIterator",
                          "catalyst.expressions.codegen.LazilyGeneratedOrdering")),
    ("rows, form to form", ("expressions.GeneratedClass", "UnsafeRow", "UnsafeProjection",
                            "codegen.UnsafeWriter", "codegen.BufferHolder", "UnsafeArray")),
    ("WAL and commit files", ("OffsetSeqLog", "CommitLog", "HDFSMetadataLog",
                              "CheckpointFileManager", "checkpointing.")),
    ("planning", ("catalyst.", "IncrementalExecution", "QueryExecution", "codehaus.janino",
                  "WholeStageCodegenExec", "spark.sql.execution.SparkPlan.", "SparkStrategies",
                  "MicroBatchExecution", "StreamExecution", "ProgressReporter", "ProgressContext")),
    ("scheduling", ("spark.scheduler", "spark.broadcast", "ClosureCleaner", "spark.rpc",
                    "spark.executor", "spark.util.JsonProtocol", "TorrentBroadcast",
                    "AsyncEventQueue", "spark.status")),
)  # fmt: skip
# where a thread stands that does nothing
_JVM_WAITS = (
    "EPoll.wait", "Net.poll", "Net.accept", "Unsafe.park", "Object.wait", "accept0", "KQueue.poll",
    "UnixDomainSockets.accept", "SocketDispatcher.read0", "FileInputStream.readBytes",
    "Native.epollWait0", "ProcessHandleImpl.waitForProcessExit0", "UnixDomainSockets.read",
)  # fmt: skip

PYTHON = (
    ("fold's own code", ("peer_flow.py:fold", "peer_flow.py:next_state", "device.py:")),
    ("parse", ("envelope.py:read_event", "event_reader.py:read", "enrich_payload.py:_fields")),
    ("JSON out", ("envelope.py:event_value", "envelope.py:event_fields")),
    ("headers out", ("envelope.py:event_headers", "timestamps.py:to_rfc3339")),
    ("join", ("master_data_view.py:", "enrich_payload.py:find", "peer_flow.py:to_event")),
    ("snapshot as bytes", ("snapshot.py:decode", "snapshot.py:encode", "snapshot.py:_snapshot")),
    ("pages of snapshots", ("paged_states.py:",)),
    ("state calls", ("map_state_client.py:", "value_state_client.py:", "list_state_client.py:",
                     "stateful_processor_api_client.py:", "bulk_map_state.py:",
                     "stateful_processor_util.py:_handle_data_rows")),
    ("applier", ("applier.py:", "snapshot.py:", "emissions.py:")),
    ("pack for the shuffle", ("buckets.py:pack_by_bucket", "buckets.py:unpack")),
    ("read from Kafka", ("read_range.py:", "read_tail.py:", "messages.py:")),
    ("write to Kafka", ("topic_writer.py:",)),
    ("Arrow to Python", ("serializers.py:load_stream",)),
    ("Arrow from Python", ("serializers.py:dump_stream", "serializers.py:_create_batch",
                           "conversion.py:")),
    ("enrichment", ("enrich/enrich_payload.py:", "enrich/job.py:", "ids.py:")),
    ("fold's handler", ("fold/bucket_fold.py:",)),
    ("worker's own", ("daemon.py:", "worker.py:main", "worker.py:process", "worker.py:read")),
)  # fmt: skip


def hop_of(stack: Iterable[str], hops: Sequence[tuple[str, Sequence[str]]]) -> str:
    for frame in stack:
        for hop, names in hops:
            if any(name in frame for name in names):
                return hop
    return OTHER


def jvm_hop(stack: Sequence[str]) -> str:
    """Whatever Spark's server of the state does is a state call, its rows' encoders too."""
    if any("TransformWithStateInPySparkStateServer" in frame for frame in stack):
        return "state calls"
    return hop_of(stack, JVM)


def jvm_works(stack: Sequence[str]) -> bool:
    return bool(stack) and not any(name in stack[0] for name in _JVM_WAITS)


def python_samples(
    folder: Path, from_s: float, until_s: float
) -> Iterator[tuple[int, int, list[str]]]:
    """What `sampled_daemon` has written: process, number of samples, frames from within."""
    for file in folder.glob("*.samples"):
        for line in file.read_text().splitlines():
            second, count, *frames = line.split(" ")
            if from_s <= int(second) < until_s:
                yield int(file.stem), int(count), frames


def spread(cpu_s: float, samples: Counter[str]) -> Counter[str]:
    """CPU over the hops, as the samples say."""
    total = samples.total()
    if not total:
        return Counter({OTHER: cpu_s})
    return Counter({hop: cpu_s * number / total for hop, number in samples.items()})
