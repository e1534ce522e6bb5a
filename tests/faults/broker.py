"""A real broker that can be killed, frozen and restarted, with a second door behind a proxy."""

import os
import signal
import subprocess
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from local_stack.machine.downloads import fetch_downloads
from local_stack.machine.java import find_java
from local_stack.servers import kafka
from tests.faults.oracles import Found, Place
from tests.gateway.support import free_port, until

_DOORS = """
listeners=PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{behind},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{proxied}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT
"""


class Broker:
    def __init__(self, folder: Path, proxied_port: int) -> None:
        self._log = (folder / "kafka.log").open("ab")
        self.behind_proxy_port = free_port()
        ports = {"port": free_port(), "controller_port": free_port()}
        self.bootstrap = f"127.0.0.1:{ports['port']}"
        java = find_java()
        service = kafka.prepare_kafka(java, fetch_downloads(java), folder, os.environ, **ports)
        with (folder / "kafka" / "server.properties").open("a") as properties:
            properties.write(
                _DOORS.format(
                    port=ports["port"],
                    control=ports["controller_port"],
                    behind=self.behind_proxy_port,
                    proxied=proxied_port,
                )
            )
        self._command = service.command
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=self._log, stderr=self._log)

    def answers(self) -> bool:
        return kafka.kafka_answers(self.bootstrap)

    def send_signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None

    def close(self) -> None:
        self.end(signal.SIGKILL)
        self._log.close()

    def create(self, topics: list[NewTopic]) -> None:
        until(self.answers, 60)
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for made in admin.create_topics(topics).values():
            made.result(30)


def read_topic(bootstrap: str, topic: str) -> dict[Place, Found]:
    """All of it."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "rig",
        "log_level": 0,
        "fetch.wait.max.ms": 20,  # or the broker keeps an end to itself for half a second
    }
    consumer = Consumer({**settings, "enable.partition.eof": True})
    partitions = consumer.list_topics(topic, 20).topics[topic].partitions
    consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
    found: dict[Place, Found] = {}
    ended: set[int | None] = set()
    deadline_s = time.monotonic() + 120
    while len(ended) < len(partitions):
        assert time.monotonic() < deadline_s, "the topic cannot be read to its end"
        for message in consumer.consume(5000, 0.05):
            error = message.error()
            if error is None:
                place = message.partition() or 0, message.offset() or 0
                found[place] = Found(message.key() or b"", message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    consumer.close()
    return found
