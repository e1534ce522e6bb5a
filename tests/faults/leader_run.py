"""Three brokers, three replicas, two in sync at least; a leader is killed under load, and returns.

python -m tests.faults.leader_run --kills 6
"""

import argparse
import asyncio
import itertools
import random
import secrets
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from local_stack.machine.downloads import fetch_downloads
from local_stack.machine.java import find_java
from local_stack.servers import kafka
from shared.flow import FLOW
from tests.faults.broker import read_topic
from tests.faults.client_answers import Ledger
from tests.faults.gateway_run import say
from tests.faults.load import TOPIC, Load
from tests.faults.oracles import doubled, violations
from tests.faults.rig import GatewayUnderTest
from tests.gateway.support import free_port, until

_OF_THE_CLUSTER = """
node.id={node}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.quorum.voters={voters}
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
"""
_CLUSTER_ID = "HeadraceThreeBrokers00"


class Cluster:
    def __init__(self, folder: Path) -> None:
        self._log = (folder / "kafka.log").open("ab")
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self._ports = {node: (free_port(), free_port()) for node in (1, 2, 3)}
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port, _ in self._ports.values())
        self._commands = {node: self._prepare(folder / str(node), node) for node in self._ports}

    def _prepare(self, folder: Path, node: int) -> list[str]:
        java = find_java()
        run = [java.command, *kafka.JVM, "-Xmx384m", *kafka.LOGGING, "-cp"]
        run.append(fetch_downloads(java).broker_class_path)
        port, control = self._ports[node]
        voters = ",".join(f"{n}@127.0.0.1:{c}" for n, (_, c) in self._ports.items())
        settings = folder / "server.properties"
        (folder / "data").mkdir(parents=True)
        settings.write_text(
            kafka.properties(folder / "data", port, control)
            + _OF_THE_CLUSTER.format(node=node, port=port, control=control, voters=voters)
        )
        tool = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(settings)]
        subprocess.run([*run, *tool], check=True, stdout=self._log, stderr=self._log)
        return [*run, "kafka.Kafka", str(settings)]

    def start(self, node: int) -> None:
        command = self._commands[node]
        self.nodes[node] = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def kill(self, node: int) -> None:
        self.nodes[node].send_signal(signal.SIGKILL)
        self.nodes.pop(node).wait(30)

    def create(self) -> None:
        until(self._knows_all_nodes, 90)
        topics = [
            NewTopic(t.name, 4, 3, config={**t.config, "min.insync.replicas": "2"})
            for t in FLOW.topics()
        ]
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for made in admin.create_topics(topics).values():
            made.result(60)

    def _knows_all_nodes(self) -> bool:
        try:
            return len(self._metadata().brokers) == 3
        except KafkaException:  # none of them answers yet
            return False

    def is_whole(self) -> bool:
        partitions = self._metadata().topics[TOPIC].partitions.values()
        return all(len(partition.isrs) == 3 for partition in partitions)

    def leader(self, chance: random.Random) -> int:
        partitions = self._metadata().topics[TOPIC].partitions
        return int(partitions[chance.choice(sorted(partitions))].leader)

    def _metadata(self):  # type: ignore[no-untyped-def]
        settings = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        return AdminClient(settings).list_topics(timeout=10)

    def close(self) -> None:
        for node in list(self.nodes):
            self.kill(node)
        self._log.close()


async def run(folder: Path, seed: int, kills: int, per_s: float) -> int:
    chance, ledger = random.Random(seed), Ledger(folder / "ledger.jsonl")
    cluster = Cluster(folder)
    try:
        for node in (1, 2, 3):
            cluster.start(node)
        await asyncio.to_thread(cluster.create)
        async with GatewayUnderTest(folder, cluster.bootstrap, {}) as gateway:
            await gateway.healed()
            load = Load(gateway.port, ledger, seed, per_s)
            loading = asyncio.create_task(load.run())
            for number in range(kills):
                await asyncio.sleep(3)
                leader = await asyncio.to_thread(cluster.leader, chance)
                await asyncio.to_thread(cluster.kill, leader)
                say(f"{number + 1} broker {leader}, a leader, is killed; {load.answered} answered")
                await asyncio.sleep(5)
                cluster.start(leader)
                await gateway.until(cluster.is_whole, 90)
            load.over = True
            await loading
            await gateway.healed()
            topic = await asyncio.to_thread(read_topic, cluster.bootstrap, TOPIC)
    finally:
        cluster.close()
    sent = list(ledger.sent.values())
    told = Counter(one.told for one in sent)
    found = violations(sent, topic)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(told.items()))
    print(
        f"seed {seed}: {len(sent)} POSTs ({kinds}), {kills} leaders killed, {doubled(topic)} "
        f"records doubled, {len(found)} violations"
    )
    for violation in itertools.islice(found, 50):
        print(violation)
    return 1 if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--per-s", type=float, default=500.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(run(Path(folder), options.seed, options.kills, options.per_s))


if __name__ == "__main__":
    sys.exit(main())
