"""What we use of other packages that their documentation does not promise.

A new version may move any of it, and would be found out in production, or not at all. Each row of
`USES` says what it is, which of our modules use it, for what, and what to do when it has moved. The
last tests hold the table complete. Nothing is started here: Spark's Java side is read in its jars.
"""

import ast
import importlib
import inspect
import json
import pickle
import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import httptools
import pytest
import uvicorn
from aiokafka.partitioner import murmur2
from pyspark.sql.streaming.map_state_client import MapStateClient
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages
from pyspark.sql.streaming.stateful_processor import MapState
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
from pyspark.sql.types import BinaryType, StringType, StructType

from gateway.monitor.kafka_facts import _LogDirs, _LogDirsAsked
from stream_jobs.state import bulk_map_state
from stream_jobs.supervision import failure, session

ROOT = Path(__file__).parent.parent
STATE_CLIENT = "pyspark.sql.streaming.stateful_processor_api_client:StatefulProcessorApiClient"
HTTP = "uvicorn.protocols.http.httptools_impl"
JVM = "jvm"  # before the name of a Java class: it is looked for in Spark's jars
SPARK_SQL = "jvm:org.apache.spark.sql"
MURMUR_3 = "org/apache/spark/sql/catalyst/expressions/CollationAwareMurmur3Hash"


class Part(NamedTuple):
    """A name, and who has it: `module`, `module:Class`, or `jvm:a.java.Class`. A class has what it
    defines, inherits or sets on `self`; a Java class every name and text that its file holds."""

    owner: str
    name: str = ""
    parameters: tuple[str, ...] | None = None  # of a function, without `self`


class Use(NamedTuple):
    what: str
    by: tuple[str, ...]
    why: str
    when_moved: str
    parts: tuple[Part, ...]


def parts(owner: str, *names: str) -> tuple[Part, ...]:
    return tuple(Part(owner, name) for name in names)


USES = (
    Use(
        "PySpark's client of a map state",
        ("stream_jobs.state.bulk_map_state",),
        "sending many questions to Spark's state before it reads the first answer",
        "follow the client's new names; without them, ask key by key as ManyStates does in tests",
        (
            *parts(
                "pyspark.sql.streaming.stateful_processor:MapState",
                *("_mapStateClient", "_stateName"),
            ),
            Part(
                "pyspark.sql.streaming.map_state_client:MapStateClient",
                "_stateful_processor_api_client",
            ),
            Part(STATE_CLIENT, "sockfile"),
            Part(STATE_CLIENT, "_receive_proto_message", ()),
            *parts(
                "pyspark.sql.streaming.proto.StateMessage_pb2",
                *("StateRequest", "StateResponse", "MapStateCall"),
            ),
        ),
    ),
    Use(
        "how Spark pickles a row of its state",
        ("stream_jobs.state.bulk_map_state",),
        "reading a row without the JSON of its type",
        "see what EvaluatePython.RowPickler writes now, and name that in _Rows.find_class",
        (
            Part("pyspark.sql.types", "_parse_datatype_json_string", ("json_string",)),
            Part("pyspark.sql.types", "_create_row_inbound_converter", ("dataType",)),
            Part(
                f"{SPARK_SQL}.execution.python.EvaluatePython$RowPickler",
                "\n_create_row_inbound_converter\n",
            ),
            Part(
                f"{SPARK_SQL}.execution.python.EvaluatePython$StructTypePickler",
                "\n_parse_datatype_json_string\n",
            ),
        ),
    ),
    Use(
        "Spark's daemon of Python workers",
        ("stream_jobs.supervision.worker_daemon",),
        "importing what all workers need before they are forked",
        "see what pyspark/daemon.py runs now, and call that at the end of main",
        (
            Part("pyspark.daemon", "manager", ()),
            Part("pyspark.worker", "main"),
            Part("pyspark.testing.utils"),
            Part("pyspark.sql.streaming.proto.StateMessage_pb2"),
        ),
    ),
    Use(
        "what the processes of Spark's planner import",
        ("stream_jobs.spark_helpers.server",),
        "importing it once for all of them, before they are forked",
        "take the name out of _NEEDED: each of them imports it itself then",
        (
            Part("pyspark.logger.worker_io"),
            Part("pyspark.sql.datasource_internal"),
            Part("pyspark.sql.streaming.stateful_processor_api_client"),
            Part("pyspark.sql.streaming.stateful_processor_util"),
            Part("pyspark.sql.worker.create_data_source"),
            Part("pyspark.sql.worker.lookup_data_sources"),
            Part("pyspark.sql.worker.plan_data_source_read"),
            Part("pyspark.sql.worker.utils"),
            Part("pyspark.worker"),
            Part("pyspark.worker_util"),
        ),
    ),
    Use(
        "the Java query behind a StreamingQuery",
        ("stream_jobs.supervision.progress",),
        "knowing cheaply whether a query has made progress since the last look",
        "compare query.lastProgress instead: right, but some milliseconds each time",
        (
            Part("pyspark.sql.streaming.query:StreamingQuery", "_jsq"),
            *parts(f"{SPARK_SQL}.streaming.StreamingQuery", "lastProgress"),
            *parts(f"{SPARK_SQL}.streaming.StreamingQueryProgress", *("runId", "batchId")),
            Part(f"{SPARK_SQL}.streaming.StreamingQueryProgress", "timestamp"),
        ),
    ),
    Use(
        "the Java stack trace of a query's exception",
        ("stream_jobs.supervision.job_run",),
        "finding a damaged checkpoint file among the causes of a failure",
        "find where PySpark keeps the trace of the cause; without it damage is retried for ever",
        parts(
            "pyspark.errors.exceptions.captured:CapturedException",
            *("_cause", "_stackTrace"),
        ),
    ),
    Use(
        "the gateway to the driver's JVM",
        ("stream_jobs.driver",),
        "ending the driver when its JVM has ended, or its application",
        "find the JVM's process in the new place; without it a driver goes on without its JVM",
        (
            Part("pyspark:SparkContext", "_gateway"),
            Part("pyspark:SparkContext", "_jsc"),
            Part("pyspark.java_gateway:launch_gateway", "proc"),
            Part("py4j.protocol:Py4JError"),
        ),
    ),
    Use(
        "the driver's view of its JVM",
        ("stream_jobs.supervision.until_stored",),
        "sleeping in the query's own Java thread, so that a stop wakes it",
        "find another sleep that an interrupt of the query's thread ends",
        (Part("pyspark:SparkContext", "_jvm"), Part("py4j.protocol:Py4JJavaError")),
    ),
    Use(
        "Hadoop's file systems, by way of the JVM",
        ("stream_jobs.parquet.hadoop_files",),
        "committing and moving files wherever Spark writes them",
        "find another way to Hadoop's FileSystem with Spark's own configuration",
        (Part("pyspark:SparkContext", "_jvm"), Part("pyspark:SparkContext", "_jsc")),
    ),
    Use(
        "the words by which Spark tells a stop from a failure",
        ("stream_jobs.supervision.until_stored",),
        "ending a batch that was interrupted, without the query counting as failed",
        "copy the words that StreamExecution looks for now into stop_as_spark_knows_it",
        (
            Part(
                f"{SPARK_SQL}.execution.streaming.runtime.StreamExecution$",
                "py4j.protocol.Py4JJavaError: An error occurred while calling",
            ),
            Part("py4j.protocol:Py4JJavaError", "java_exception"),
        ),
    ),
    Use(
        "what Spark says to a task about its batch",
        ("stream_jobs.enrich.job",),
        "knowing in a worker that a new batch or a new run of the query has begun",
        "find the new names of these local properties; without them the gates are not read anew",
        (
            Part(
                f"{SPARK_SQL}.execution.streaming.runtime.MicroBatchExecution$",
                "streaming.sql.batchId",
            ),
            Part("jvm:org.apache.spark.SparkContext$", "spark.jobGroup.id"),
        ),
    ),
    Use(
        "PySpark's copy of cloudpickle",
        ("stream_jobs.kafka_io.log_source",),
        "sending a job's work to the workers, closures included",
        "require cloudpickle itself, in the version that PySpark has",
        (Part("pyspark.cloudpickle", "dumps"),),
    ),
    Use(
        "modules of PySpark's streaming that are documented under other names",
        (
            *(
                f"stream_jobs.{job}.job"
                for job in (
                    "aggregate",
                    "enrich",
                    "fold",
                    "forward",
                    "parquet",
                    "persist",
                    "search",
                )
            ),
            *("stream_jobs.jobs", "stream_jobs.retry.job", "stream_jobs.kafka_io.log_reader"),
            *("stream_jobs.kafka_io.log_source", "stream_jobs.kafka_io.writing_processor"),
            *("stream_jobs.state.bulk_map_state", "stream_jobs.supervision.progress"),
            *("stream_jobs.supervision.work", "stream_jobs.supervision.job_run"),
            "stream_jobs.views.job",
        ),
        "types, and the base classes of the source's reader and of the processor of state",
        "import them from where the documentation has them now",
        (
            Part("pyspark.sql.streaming.readwriter", "DataStreamWriter"),
            Part("pyspark.sql.streaming.query", "StreamingQuery"),
            *parts("pyspark.sql.streaming.datasource", "ReadLimit", "ReadMaxRows"),
            *parts(
                "pyspark.sql.streaming.stateful_processor",
                *("MapState", "StatefulProcessor", "StatefulProcessorHandle"),
            ),
        ),
    ),
    Use(
        "Spark's sink for nothing",
        ("stream_jobs.kafka_io.log_source", "stream_jobs.supervision.warm_up"),
        "ending a query whose work has written all there is to write",
        "write to a foreachBatch that does nothing",
        (Part(f"{SPARK_SQL}.execution.datasources.noop.NoopDataSource", "noop"),),
    ),
    Use(
        "Spark's plan of a query, as it has analysed it",
        ("stream_jobs.views.spark_plan",),
        "refusing views that cannot be kept up to date, before they begin",
        "look at what DataFrame.explain prints; without it, such views fail later, or go wrong",
        (
            Part("pyspark.sql.classic.dataframe:DataFrame", "_jdf"),
            Part(f"{SPARK_SQL}.execution.QueryExecution", "analyzed"),
            *parts(
                f"{SPARK_SQL}.catalyst.plans.logical.Aggregate",
                *("groupingExpressions", "aggregateExpressions"),
            ),
            *parts(f"{SPARK_SQL}.catalyst.plans.logical.Project", "projectList"),
            *parts(f"{SPARK_SQL}.catalyst.plans.QueryPlan", "expressions", "subqueries"),
            *parts(
                f"{SPARK_SQL}.catalyst.analysis.UnsupportedOperationChecker", "checkForStreaming"
            ),
            Part("pyspark:SparkContext", "_jvm"),
            *parts(
                f"{SPARK_SQL}.catalyst.expressions.Expression",
                *("semanticEquals", "deterministic", "foldable", "sql", "nullable"),
            ),
            *parts(f"{SPARK_SQL}.catalyst.plans.logical.QueryPlanConstraints", "constraints"),
            *parts(f"{SPARK_SQL}.catalyst.expressions.IsNotNull", "child"),
            *parts(f"{SPARK_SQL}.catalyst.expressions.Alias", "exprId", "child"),
            Part(f"{SPARK_SQL}.catalyst.expressions.TimeWindow$", "spark.timeWindow"),
            Part(
                f"{SPARK_SQL}.catalyst.plans.logical.EventTimeWatermark$", "spark.watermarkDelayMs"
            ),
            *parts(f"{SPARK_SQL}.catalyst.plans.logical.View", "desc"),
            *parts(
                f"{SPARK_SQL}.catalyst.plans.logical.Join",
                *("left", "right", "joinType", "condition"),
            ),
        ),
    ),
    Use(
        "Spark's judgement of joins",
        ("stream_jobs.views.spark_plan",),
        "refusing joins that would keep all events for ever",
        "ask for a bound of time in the text of the ON; without it, state grows without end",
        (
            Part("pyspark.sql.classic.dataframe:DataFrame", "_jdf"),
            Part("pyspark.sql.session:SparkSession", "_jsparkSession"),
            Part("pyspark:SparkContext", "_jvm"),
            *parts(f"{SPARK_SQL}.internal.SessionState", "optimizer"),
            *parts(f"{SPARK_SQL}.catalyst.analysis.StreamingJoinHelper", "getStateValueWatermark"),
            *parts(f"{SPARK_SQL}.catalyst.planning.ExtractEquiJoinKeys", "unapply"),
        ),
    ),
    Use(
        "the folders of Spark's checkpoint",
        ("stream_jobs.guards.checkpoint_offsets", "stream_jobs.kafka_io.cut_reader"),
        "knowing what a job has planned and done, and publishing it",
        "read the new layout in offsets_of; it must say the same of old checkpoints",
        parts(
            f"{SPARK_SQL}.execution.streaming.runtime.StreamingCheckpointConstants$",
            *("offsets", "commits"),
        ),
    ),
    Use(
        "how Hadoop names a damaged file",
        ("stream_jobs.supervision.failure",),
        "stopping a job whose checkpoint is damaged, and naming the file",
        "match the new words in _DAMAGED_FILE; without it damage is retried for ever",
        (
            Part("jvm:org.apache.hadoop.fs.ChecksumException"),
            Part("jvm:org.apache.hadoop.fs.FSInputChecker", "Checksum error: "),
        ),
    ),
    Use(
        "Spark's hash of an int",
        ("stream_jobs.state.buckets",),
        "spreading buckets evenly over the state's partitions",
        "compare partition_of with Spark's `hash(bucket)`: the numbers are fixed in checkpoints",
        (
            Part("jvm:org.apache.spark.unsafe.hash.Murmur3_x86_32", "hashInt"),
            Part(f"{SPARK_SQL}.catalyst.plans.physical.HashPartitioning", MURMUR_3),
        ),
    ),
    Use(
        "what uvicorn's server asks of a connection",
        ("gateway.server.connection",),
        "being made, counted and ended as uvicorn's own connections are",
        "see what Server.startup and Server.shutdown ask of their connections now",
        (
            Part(
                f"{HTTP}:HttpToolsProtocol",
                "__init__",
                ("config", "server_state", "app_state", "_loop"),
            ),
            Part(f"{HTTP}:HttpToolsProtocol", "shutdown", ()),
            Part("uvicorn.config:Config", "loaded_app"),
            *parts("uvicorn.server:ServerState", "connections", "default_headers", "tasks"),
            *parts("uvicorn.server:ServerState", "total_requests"),
        ),
    ),
    Use(
        "uvicorn's control of a connection's flow, and its addresses",
        ("gateway.server.asgi_request", "gateway.server.connection", "gateway.server.deadlines"),
        "pausing a client, waiting for one that reads slowly, and saying who is who in the scope",
        "make them here: each is a few lines around the transport",
        (
            Part("uvicorn.protocols.http.flow_control", "HIGH_WATER_LIMIT"),
            *parts(
                "uvicorn.protocols.http.flow_control:FlowControl",
                *("pause_reading", "pause_writing", "read_paused", "resume_reading"),
                *("resume_writing", "write_paused"),
            ),
            Part("uvicorn.protocols.utils", "get_local_addr", ("transport",)),
            Part("uvicorn.protocols.utils", "get_remote_addr", ("transport",)),
            Part("uvicorn.protocols.utils", "is_ssl", ("transport",)),
        ),
    ),
    Use(
        "uvicorn's cycle of an ASGI request",
        ("gateway.server.asgi_request",),
        "answering a request by the application, with writes, closing and order our own",
        "write the cycle here: receive, send and the end of the answer, in some hundred lines",
        (
            Part(
                f"{HTTP}:RequestResponseCycle",
                "__init__",
                (
                    *("scope", "transport", "flow", "logger", "access_logger", "access_log"),
                    *("default_headers", "message_event", "expect_100_continue", "keep_alive"),
                    "on_response",
                ),
            ),
            Part(f"{HTTP}:RequestResponseCycle", "run_asgi", ("app",)),
            *parts(
                f"{HTTP}:RequestResponseCycle",
                *("body", "disconnected", "keep_alive", "message_event", "more_body"),
                *("response_complete", "response_started", "transport"),
                "waiting_for_100_continue",
            ),
        ),
    ),
    Use(
        "the steps of uvicorn's server",
        ("gateway.server.admin_port", "gateway.server.server"),
        "saying good-bye before the port closes, and serving a second port in one event loop",
        "see what Server.serve calls now, and override that",
        (
            Part("uvicorn.server:Server", "startup", ("sockets",)),
            Part("uvicorn.server:Server", "handle_exit", ("sig", "frame")),
            Part("uvicorn.server:Server", "on_tick", ("counter",)),
            Part("uvicorn.server:Server", "capture_signals", ()),
            Part("uvicorn.server:Server", "serve", ("sockets",)),
            *parts("uvicorn.server:Server", "config", "force_exit", "lifespan", "server_state"),
            *parts("uvicorn.server:Server", "should_exit"),
            *parts("uvicorn.config:Config", "encoded_headers", "lifespan", "ssl_context_factory"),
        ),
    ),
    Use(
        "the task in which aiokafka's producer sends",
        ("gateway.kafka_writer.producer_keeper",),
        "seeing that it has died, and taking a producer apart that does not stop",
        "find the task in the new version; test_kafka_log shows what it must be able to do",
        (
            Part("aiokafka:AIOKafkaProducer", "_sender"),
            Part("aiokafka.producer.sender:Sender", "sender_task"),
            Part("aiokafka.producer.sender:Sender", "_fail_all", ("task",)),
        ),
    ),
    Use(
        "the client under aiokafka's producer",
        ("gateway.kafka_writer.kafka_log", "gateway.kafka_writer.producer_keeper"),
        "knowing whether Kafka answers, who leads a partition, and what may not be written",
        "find these in the new client, or ask librdkafka's metadata",
        (
            Part("aiokafka:AIOKafkaProducer", "client"),
            Part("aiokafka.client:AIOKafkaClient", "cluster"),
            Part("aiokafka.client:AIOKafkaClient", "set_topics", ("topics",)),
            Part("aiokafka.client:AIOKafkaClient", "fetch_all_metadata", ()),
            Part("aiokafka.client:AIOKafkaClient", "force_metadata_update", ()),
            Part("aiokafka.client:AIOKafkaClient", "close", ()),
            Part("aiokafka.cluster:ClusterMetadata", "unauthorized_topics"),
            Part("aiokafka.cluster:ClusterMetadata", "leader_for_partition", ("partition",)),
            Part("aiokafka.cluster:ClusterMetadata", "partitions_for_topic", ("topic",)),
        ),
    ),
    Use(
        "a batch of aiokafka's, filled by hand",
        ("gateway.kafka_writer.partition_queue",),
        "one request with what has come for a partition, and the offset of each record of it",
        "see how BatchBuilder and send_batch are called now",
        (
            Part("aiokafka:AIOKafkaProducer", "create_batch", ()),
            Part("aiokafka:AIOKafkaProducer", "send_batch", ("batch", "topic", "partition")),
            Part(
                "aiokafka.producer.message_accumulator:BatchBuilder",
                *("append", ("timestamp", "key", "value", "headers")),
            ),
            Part("aiokafka.producer.message_accumulator:BatchBuilder", "close", ()),
            *parts("aiokafka.structs:RecordMetadata", "offset", "log_start_offset"),
        ),
    ),
    Use(
        "aiokafka's hash of a key",
        ("gateway.kafka_writer.kafka_log", "gateway.kafka_writer.partition_of_key"),
        "putting a record into the partition where Kafka's own clients put it",
        "write murmur2 down here, and hold it by the same vectors",
        (Part("aiokafka.partitioner", "murmur2", ("data",)),),
    ),
    Use(
        "how aiokafka writes a request down",
        ("gateway.monitor.kafka_facts",),
        "asking how large Kafka's logs are (DescribeLogDirs), which aiokafka does not know of",
        "write the request with the new classes; without it /health has no sizes of logs",
        (
            Part("aiokafka.admin:AIOKafkaAdminClient", "_client"),
            Part(
                "aiokafka.admin:AIOKafkaAdminClient",
                *("_send_request_to_node", ("node_id", "request")),
            ),
            Part("aiokafka.admin:AIOKafkaAdminClient", "describe_configs"),
            *parts("aiokafka.admin.config_resource", "ConfigResource", "ConfigResourceType"),
            *parts("aiokafka.protocol.api", "Request", "RequestStruct", "Response"),
            *parts("aiokafka.protocol.types", "Array", "Boolean", "Int16", "Int32", "Int64"),
            *parts("aiokafka.protocol.types", "Schema", "String"),
            Part("aiokafka.cluster:ClusterMetadata", "brokers", ()),
            Part("aiokafka.structs:BrokerMetadata", "nodeId"),
        ),
    ),
    Use(
        "librdkafka's own error codes",
        (
            *("gateway.monitor.probes", "gateway.state_view.topics", "stream_jobs.retry.waker"),
            *("stream_jobs.forward.hook_watch", "stream_jobs.kafka_io.topic_writer"),
            *("clients.kafka.follow", "clients.kafka.messages", "clients.kafka.offsets"),
            *("clients.kafka.read_at", "clients.kafka.read_range", "clients.kafka.topic_ids"),
        ),
        "telling a partition's end, a timeout, a full queue and a refused login from other errors",
        "use the code's new name",
        parts(
            "confluent_kafka:KafkaError",
            *("_AUTHENTICATION", "_AUTO_OFFSET_RESET", "_PARTITION_EOF", "_SSL", "_TIMED_OUT"),
            *("_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "_TRANSPORT", "_ALL_BROKERS_DOWN"),
            "_QUEUE_FULL",
        ),
    ),
    Use(
        "where OpenTelemetry's exporter sends to",
        ("gateway.ingest.opentelemetry",),
        "naming the collector in the log when it does not take spans",
        "keep the address in _Exporter, from the setting",
        (
            Part(
                "opentelemetry.exporter.otlp.proto.http.trace_exporter:OTLPSpanExporter",
                "_endpoint",
            ),
        ),
    ),
)

# what the packages document, and so may be imported without a row
PACKAGES = ("aiokafka", "confluent_kafka", "httptools", "py4j", "pyspark", "uvicorn")
DOCUMENTED = {
    *("aiokafka", "aiokafka.errors", "confluent_kafka", "confluent_kafka.admin", "httptools"),
    *("py4j.protocol", "pyspark", "pyspark.errors", "pyspark.sql", "pyspark.sql.datasource"),
    *("pyspark.sql.functions", "pyspark.sql.types", "uvicorn", "uvicorn.config", "uvicorn.server"),
}


def trouble(part: Part) -> str:
    """What is wrong with it; "" where it is as we need it."""
    place, _, name = part.owner.partition(":")
    if place == JVM:
        raw = java_class(name)
        if raw is None:
            return f"Spark's jars have no {name}"
        return "" if holds(raw, part.name) else f"{name} does not hold {part.name!r}"
    try:
        owner = importlib.import_module(place)
        owner = getattr(owner, name) if name else owner
    except (ImportError, AttributeError) as error:
        return str(error)
    found = getattr(owner, part.name, None) if part.name else owner
    if found is None and part.name not in set_within(owner) and not hasattr(owner, part.name):
        return f"{part.owner} has no {part.name}"
    if part.parameters is not None:
        own = tuple(inspect.signature(found).parameters)
        own = own[1:] if own[:1] == ("self",) else own
        if own != part.parameters:
            return f"{part.owner}.{part.name} takes {own}, not {part.parameters}"
    return ""


def set_within(owner: Any) -> set[str]:
    """The attributes that a class, or a function, sets on whatever it has in hand."""
    if inspect.ismodule(owner):
        return set()
    sources = []
    for one in inspect.getmro(owner) if inspect.isclass(owner) else (owner,):
        with suppress(OSError, TypeError):  # it is no Python
            sources.append(inspect.getsource(one))
    return {
        node.attr
        for source in sources
        for node in ast.walk(ast.parse(inspect.cleandoc("\n" + source)))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }


@cache
def jars() -> Mapping[str, zipfile.ZipFile]:
    """Spark's, by what is in them."""
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    found: dict[str, zipfile.ZipFile] = {}
    for pattern in ("spark-*.jar", "hadoop-client-api-*.jar"):
        for path in (Path(spec.origin).parent / "jars").glob(pattern):
            jar = zipfile.ZipFile(path)
            found |= dict.fromkeys(jar.namelist(), jar)
    return found


def java_file(path: str) -> bytes | None:
    jar = jars().get(path)
    return None if jar is None else jar.read(path)


def java_class(name: str) -> bytes | None:
    return java_file(f"{name.replace('.', '/')}.class")


def holds(java: bytes, text: str) -> bool:
    """A name or text of its own among the constants of Java classes; a sentence may be part of one
    that is put together. Without a text: the class alone is asked for."""
    raw = text.encode()
    if text and not re.search(r"\s", text):
        raw = b"\1%b%b" % (len(raw).to_bytes(2), raw)
    return raw in java


def needs_java(part: Part) -> bool:
    return part.owner.startswith(f"{JVM}:")


def row_and_part(use: Use, part: Part) -> Any:
    marks = [pytest.mark.skipif(not jars(), reason="without Spark's jars")]
    label = f"{part.owner}.{part.name}".replace("org.apache.", "").removesuffix(".")
    return pytest.param(use, part, id=label, marks=marks if needs_java(part) else [])


EACH = [row_and_part(use, part) for use in USES for part in use.parts]
with_jars = pytest.mark.skipif(not jars(), reason="without Spark's jars")


@pytest.mark.parametrize(("use", "part"), EACH)
def test_it_is_still_there(use: Use, part: Part) -> None:
    if wrong := trouble(part):
        pytest.fail(
            f"{use.what}: {wrong}. {', '.join(use.by)} needs it for {use.why}. "
            f"What to do: {use.when_moved}.",
            pytrace=False,
        )


@pytest.mark.parametrize(("use", "part"), EACH)
def test_a_name_that_has_moved_is_noticed(use: Use, part: Part) -> None:  # noqa: ARG001
    if part.name:
        assert trouble(part._replace(name=f"{part.name}_moved"))
    assert trouble(part._replace(owner=f"{part.owner}_moved"))
    if part.parameters is not None:
        assert trouble(part._replace(parameters=(*part.parameters, "moved")))


# shapes that a name alone does not show


class Wire(BytesIO):
    """Takes questions, and has no answer to any."""

    def read(self, _size: int | None = -1) -> bytes:
        raise EOFError


def state_client(wire: BytesIO) -> Any:
    client: Any = StatefulProcessorApiClient.__new__(StatefulProcessorApiClient)
    client.sockfile = wire
    client.pickleSer = bulk_map_state.pickle
    return client


def sent(wire: BytesIO) -> dict[str, Any]:
    version, length = struct.unpack("!ii", wire.getvalue()[:8])
    request = messages.StateRequest.FromString(wire.getvalue()[8:])
    assert (version, length) == (0, len(wire.getvalue()) - 8)
    call = request.stateVariableRequest.mapStateCall
    method = call.WhichOneof("method")
    fields = {field.name: value for field, value in getattr(call, method).ListFields()}
    return {"state": call.stateName, "method": method} | {
        name: pickle.loads(value) for name, value in fields.items()
    }


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (lambda its: its.get_value("s", ("k",)), lambda its: its.ask([("k",)])),
        (
            lambda its: its.update_value("s", ("k",), (b"v",)),
            lambda its: its.put({("k",): b"v"}),
        ),
        (lambda its: its.remove_key("s", ("k",)), lambda its: its.remove([("k",)])),
    ],
    ids=["get", "put", "remove"],
)
def test_our_questions_to_the_state_are_those_of_pysparks_own_client(
    theirs: Any, ours: Any
) -> None:
    wire, own_wire = Wire(), Wire()
    key, value = StructType().add("k", StringType()), StructType().add("value", BinaryType())
    client = MapStateClient(state_client(wire), key, value)
    with pytest.raises(EOFError):
        theirs(client)
    state = MapState(client, "s")
    connection = bulk_map_state.Connection(state_client(own_wire))
    ours(bulk_map_state.ManyStates(state, connection))
    assert sent(own_wire) == sent(wire)


def test_an_answer_of_the_state_is_status_words_and_bytes() -> None:
    answer = messages.StateResponse(statusCode=1, errorMessage="no", value=b"v").SerializeToString()
    client = state_client(BytesIO(struct.pack("!i", len(answer)) + answer))
    assert client._receive_proto_message() == (1, "no", b"v")


def test_a_row_of_the_state_is_read_as_pyspark_reads_it() -> None:
    schema = StructType().add("value", BinaryType())
    raw = (
        b"cpyspark.sql.types\n_create_row_inbound_converter\n"
        b"(cpyspark.sql.types\n_parse_datatype_json_string\n"
        b"(V" + schema.json().encode() + b"\ntRtR(" + pickle.dumps(b"bytes", 2)[2:-1] + b"tR."
    )
    assert bulk_map_state._value(raw) == pickle.loads(raw)[0] == b"bytes"


def test_uvicorn_takes_a_callable_as_its_protocol() -> None:
    protocol: Any = partial(SimpleNamespace)
    config = uvicorn.Config(
        SimpleNamespace, http=protocol, ws="none", lifespan="off", log_config=None
    )
    config.load()
    assert config.http_protocol_class is protocol


class Callbacks:
    def __init__(self) -> None:
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda *_: self.called.append(name)


def test_httptools_calls_back_and_says_where_another_protocol_begins() -> None:
    callbacks = Callbacks()
    parser = httptools.HttpRequestParser(callbacks)
    head = b"POST / HTTP/1.1\r\nhost: x\r\n"
    parser.feed_data(head + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n")
    assert parser.should_keep_alive() and not parser.should_upgrade()
    assert (parser.get_method(), parser.get_http_version()) == (b"POST", "1.1")
    assert [name for name in callbacks.called if name != "on_header"] == [
        *("on_message_begin", "on_url", "on_headers_complete", "on_chunk_header", "on_body"),
        *("on_chunk_complete", "on_chunk_header", "on_chunk_complete", "on_message_complete"),
    ]
    upgrade = b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"
    with pytest.raises(httptools.HttpParserUpgrade) as raised:
        httptools.HttpRequestParser(Callbacks()).feed_data(upgrade + b"rest")
    assert raised.value.args[0] == len(upgrade)


def test_what_a_callback_of_httptools_raises_is_the_context_of_its_error() -> None:
    fault = ValueError("ours")

    class Raises(Callbacks):
        def on_headers_complete(self) -> None:
            raise fault

    with pytest.raises(httptools.HttpParserCallbackError) as raised:
        httptools.HttpRequestParser(Raises()).feed_data(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert raised.value.__context__ is fault


def test_aiokafka_writes_our_request_for_the_sizes_of_logs() -> None:
    asked = _LogDirs().prepare({35: (1, 4)})
    assert isinstance(asked, _LogDirsAsked)
    assert asked.encode() == struct.pack("!i", -1)  # of all topics


@pytest.mark.parametrize(("key", "its_hash"), [(b"21", -973932308), (b"foobar", -790332482)])
def test_aiokafkas_hash_is_that_of_kafkas_own_clients(key: bytes, its_hash: int) -> None:
    assert murmur2(key) & 0x7FFFFFFF == its_hash & 0x7FFFFFFF


# what Spark's Java side calls its settings, its errors and its loggers


def words_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def modules() -> Iterator[tuple[str, ast.Module]]:
    for package in ("clients", "gateway", "stream_jobs"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield name, ast.parse(path.read_text())


OF_HADOOP = "spark.hadoop."  # handed on without a look
# of columns, not settings
MARKS = "spark.timeWindow", "spark.watermarkDelayMs"
SETTINGS = sorted(
    key
    for key in {
        *session._ALWAYS,
        *(word for _, tree in modules() for word in words_of(tree)),
    }
    if re.fullmatch(r"spark(\.\w+)+", key)
    and not key.startswith(OF_HADOOP)
    and key not in (session._STREAMING, *MARKS)  # the first begins others
)
_CLASSES_OF_SETTINGS = re.compile(
    r"org/apache/spark/(internal/config/.*|sql/internal/(Static)?SQLConf\$"
    r"|sql/internal/SqlApiConfHelper\$|sql/execution/streaming/state/RocksDBConf\$|SparkContext\$"
    r"|launcher/SparkLauncher|util/Utils\$)\.class"
)
_PREFIX_OF_ROCKSDB = "spark.sql.streaming.stateStore.rocksdb."


@cache
def settings_of_spark() -> bytes:
    return b"".join(
        jar.read(path) for path, jar in jars().items() if _CLASSES_OF_SETTINGS.fullmatch(path)
    )


def is_a_setting(key: str) -> bool:
    return holds(settings_of_spark(), key.removeprefix(_PREFIX_OF_ROCKSDB))


@with_jars
@pytest.mark.parametrize("key", SETTINGS)
def test_spark_still_knows_the_setting(key: str) -> None:
    assert not is_a_setting(f"{key}.moved")
    assert is_a_setting(key), (
        f"Spark has no setting {key} any more and passes over one that it does not know: see in "
        "its migration guide what it is now, and mend stream_jobs/supervision/session.py"
    )


@with_jars
@pytest.mark.parametrize(
    "name", [value for value in session._ALWAYS.values() if value.startswith("org.apache.spark.")]
)
def test_spark_still_has_the_class_that_a_setting_names(name: str) -> None:
    assert java_class(name), (
        f"Spark has no {name} any more, which stream_jobs/supervision/session.py gives as a "
        "setting: find where it is now"
    )


CONDITIONS = [*failure._STOPPING, failure._DAMAGED_STATE[0]]


@with_jars
@pytest.mark.parametrize("condition", CONDITIONS)
def test_spark_still_has_the_condition_that_stops_a_job(condition: str) -> None:
    raw = java_file("error/error-conditions.json")
    assert raw is not None
    known = json.loads(raw)
    names = {*known, *(f"{one}.{sub}" for one in known for sub in known[one].get("subClass", ()))}
    assert any(name.startswith(condition) for name in names), (
        f"Spark has no error condition {condition} any more, by which "
        "stream_jobs/supervision/failure.py knows damage: without it the job restarts for ever"
    )


LOGGERS = re.findall(
    r"^logger\.\w+\.name = (org\.apache\.(?:spark|hadoop)\.\S+)$",
    (ROOT / "stream_jobs/supervision/log4j2.properties").read_text(),
    re.MULTILINE,
)
# quiet if a deployment brings Spark's own Kafka source; it is no part of Spark's core
LOGGERS.remove("org.apache.spark.sql.kafka010")


@with_jars
@pytest.mark.parametrize("name", LOGGERS)
def test_spark_still_has_the_logger_that_is_kept_quiet(name: str) -> None:
    path = name.replace(".", "/")
    assert any(one.startswith((f"{path}/", f"{path}.class")) for one in jars()), (
        f"nothing logs as {name} any more: find its new name for log4j2.properties"
    )


# the table is complete


def private_uses(tree: ast.AST) -> Iterator[str]:
    """Names of other packages that they do not promise: private attributes, modules that are not
    documented, Java classes. An attribute is foreign that the module does not define itself."""
    own = {name for node in ast.walk(tree) for name in names_made_by(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Call(func=ast.Name("super"))) if is_private(node.attr):
                yield node.attr
            case ast.Attribute() if is_private(node.attr) and node.attr not in own:
                yield node.attr
            case ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant(str(name)), *_]):
                if is_private(name):
                    yield name
            case ast.MatchValue(ast.Constant(str(name))) if is_private(name):
                yield name
            case ast.Import(names):
                yield from (one.name for one in names if is_undocumented(one.name))
            case ast.ImportFrom(module=str(module), names=names):
                full = {f"{module}.{one.name}" for one in names}
                found = {name for name in full if find_module(name)}
                yield from (one for one in (found or {module}) if is_undocumented(one))
                yield from (one.name for one in names if is_private(one.name))
            case ast.Constant(str(text)) if re.fullmatch(r"org\.apache(\.\w+)+", text):
                yield text
            case ast.Constant(str(text)) if re.fullmatch(r"\w+(\.\w+)+", text):
                if is_undocumented(text):
                    yield text


def names_made_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
            yield name
        case ast.Attribute(ctx=ast.Store()):
            yield node.attr
        case ast.Name(name, ast.Store()):
            yield name


def is_private(name: str) -> bool:
    is_of_tuples = name in ("_replace", "_asdict", "_fields", "_make", "_exit")  # os._exit, too
    return re.match("_[A-Za-z]", name) is not None and not is_of_tuples


def is_undocumented(module: str) -> bool:
    return module.split(".")[0] in PACKAGES and module not in DOCUMENTED


@cache
def find_module(name: str) -> bool:
    if name.split(".")[0] not in PACKAGES:
        return False
    try:
        return find_spec(name) is not None
    except ImportError:
        return False


def test_each_foreign_private_name_has_a_row() -> None:
    missing = [
        f"{module} uses {name}"
        for module, tree in modules()
        for name in sorted({*private_uses(tree)})
        if not any(module in use.by and name in names_in(use) for use in USES)
        and (module != session.__name__ or not name.startswith("org.apache."))  # see its settings
    ]
    assert not missing, f"{'; '.join(missing)}: give it a row in USES, or a documented way"


def names_in(use: Use) -> set[str]:
    return {word for part in use.parts for word in (part.name, part.owner.partition(":")[0])}


def test_each_row_names_modules_that_are_there() -> None:
    there = {name for name, _ in modules()}
    assert not {module for use in USES for module in use.by} - there


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("producer._sender", {"_sender"}),
        ("class A(B):\n def f(self): return self._endpoint", {"_endpoint"}),
        ("class A(B):\n def _go(self): super()._go()", {"_go"}),
        ("class A:\n def __init__(self): self._a = 1\n def f(self): return self._a", set()),
        ("getattr(context, '_gateway', None)", {"_gateway"}),
        ("match a:\n case 'm', '_made': pass", {"_made"}),
        ("from pyspark.sql import DataFrame", set()),
        ("from pyspark import cloudpickle", {"pyspark.cloudpickle"}),
        ("import uvicorn.lifespan.on", {"uvicorn.lifespan.on"}),
        ("import_module('pyspark.worker')", {"pyspark.worker"}),
        ("from aiokafka.errors import _hidden", {"_hidden"}),
        ("NAME = 'org.apache.spark.util.Utils'", {"org.apache.spark.util.Utils"}),
        ("row._replace(a=1)", set()),
    ],
)
def test_a_foreign_private_name_is_found(source: str, found: set[str]) -> None:
    assert {*private_uses(ast.parse(source))} == found
