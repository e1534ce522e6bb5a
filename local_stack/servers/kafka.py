"""A real Kafka in one process: broker and controller together (KRaft)."""

import base64
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException

from clients.kafka.connect import admin
from local_stack.machine.downloads import Downloads
from local_stack.machine.java import Java
from local_stack.machine.log_files import log_path
from local_stack.machine.ports import accepts
from local_stack.machine.processes import Service, run_to_the_end
from local_stack.machine.settings_check import kafka_at
from local_stack.terminal.errors import LOOK, StackError
from shared.errors import JobError
from shared.kafka_access import KafkaAccess

# One broker: one replica of everything. Topics come from the flow table, never by accident.
PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
broker.session.timeout.ms=5000
broker.heartbeat.interval.ms=500
group.initial.rebalance.delay.ms=0
message.max.bytes=2097152
log.cleaner.dedupe.buffer.size=33554432
"""
JVM = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"]
LOGGING = [
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
]


def properties(data: Path, port: int, controller_port: int) -> str:
    return PROPERTIES.format(data=data, port=port, controller_port=controller_port)


def prepare_kafka(
    java: Java,
    downloads: Downloads,
    state_dir: Path,
    environment: Mapping[str, str],
    *,
    archive: Sequence[str] = (),
    port: int,
    controller_port: int,
) -> Service:
    """Writes the properties of this start, formats the storage once."""
    folder = state_dir / "kafka"
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    settings = folder / "server.properties"
    settings.write_text(properties(data, port, controller_port))
    run_class = [
        java.command,
        *JVM,
        *archive,
        "-Xmx512m",
        *LOGGING,
        "-cp",
        downloads.broker_class_path,
    ]
    if not (data / "meta.properties").exists():
        command = [*run_class, "kafka.tools.StorageTool", "format", "--ignore-formatted"]
        command += ["-t", _cluster_id(), "-c", str(settings)]
        log = log_path(state_dir, "kafka-format")
        run_to_the_end("formatting Kafka's storage", command, environment, log)
    command = [*run_class, "kafka.Kafka", str(settings)]
    return Service(
        "kafka",
        command,
        environment,
        stage=0,
        is_up=lambda: accepts(port) and kafka_answers(f"127.0.0.1:{port}"),
        grace_s=10.0,
    )


def kafka_answers(bootstrap: str) -> bool:
    try:
        return bool(admin(kafka_at(bootstrap)).list_topics(timeout=2).brokers)
    except KafkaException:
        return False


@contextmanager
def asking_kafka(bootstrap: str) -> Iterator[KafkaAccess]:
    """Kafka as the settings reach it; what it cannot do now is a sentence."""
    try:
        yield kafka_at(bootstrap)
    except (KafkaException, JobError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        raise StackError(f"Kafka at {bootstrap} does not answer: {reason}", LOOK) from error


def _cluster_id() -> str:
    # A leading dash would be read as an option.
    return "H" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
