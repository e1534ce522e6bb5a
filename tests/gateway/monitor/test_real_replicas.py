"""What three real brokers tell of their replicas, one of them killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.monitor.kafka_facts import look_at_facts
from gateway.monitor.probes import KafkaProbe, Seen
from gateway.monitor.report import Check, Observation, report
from shared.flow import FLOW
from shared.kafka_access import KafkaAccess
from tests.faults.leader_run import Cluster
from tests.gateway.support import until

pytestmark = pytest.mark.stack

TOPICS = [topic.name for topic in FLOW.topics()]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    try:
        for node in (1, 2, 3):
            cluster.start(node)
        cluster.create()
        yield cluster
    finally:
        cluster.close()


def test_a_broker_that_is_gone_and_a_setting_that_was_raised_are_told(cluster: Cluster) -> None:
    kafka = KafkaAccess(cluster.bootstrap)
    probe = KafkaProbe(kafka, TOPICS, ())

    def check(wanted: int = 3) -> Check:
        seen, facts = probe.look(), look_at_facts(kafka, TOPICS)
        well = Seen(True, 1.0)
        document = report(
            Observation(0, seen, well, True, {}, {}, replication=wanted, configs=facts.configs),
            (),
            (),
        )
        found: Check = document["checks"]["kafka:replicas"][0]
        return found

    until(lambda: check()["status"] == "pass", 60)
    told = check(wanted=5)
    assert told["status"] == "warn"
    assert "HEADRACE_REPLICATION=5" in told["output"]
    assert told["observedValue"] == 3
    # A broker makes the folder of a partition a moment after the partition has its replicas.
    until(lambda: len(look_at_facts(kafka, TOPICS).log_bytes) >= len(TOPICS) * 4, 60)
    cluster.kill(3)
    until(lambda: check()["status"] == "warn", 60)
    assert "not all replicas are in sync" in check()["output"]
