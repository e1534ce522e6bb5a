"""Who may talk to whom in a cluster, as the NetworkPolicies of deploy/kubernetes say."""

from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.deploy.kustomize import Manifest, find, render

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
NAME = "app.kubernetes.io/name"
PORTS = {53, 80, 443, 5432, 7070, 7071, 7077, 7078, 7080, 7081, 7097, 7098, 8080, 8081, 9090, 9093}
OUTSIDE = "outside"  # of this namespace


@pytest.fixture(scope="module")
def made() -> list[Manifest]:
    return render(FOLDER / "base")


def parts(made: list[Manifest]) -> set[str]:
    workloads = [one["spec"] for one in made if "template" in one.get("spec", {})]
    return {one["template"]["metadata"]["labels"][NAME] for one in workloads}


def selects(selector: dict[str, Any], part: str) -> bool:
    if unknown := selector.keys() - {"matchLabels", "matchExpressions"}:
        raise ValueError(f"not read here: {unknown}")
    for label, value in selector.get("matchLabels", {}).items():
        if label != NAME or value != part:
            return False
    rows = selector.get("matchExpressions", ())
    return all(row["operator"] == "In" and part in row["values"] for row in rows)


def allows(rule: dict[str, Any], peers: str, other: str, port: int) -> bool:
    among = rule.get(peers)
    if among is not None:
        its = [one["podSelector"] for one in among if "podSelector" in one]
        by_namespace = other == OUTSIDE and any("namespaceSelector" in one for one in among)
        if not by_namespace and (other == OUTSIDE or not any(selects(one, other) for one in its)):
            return False
    return any(one["port"] <= port <= one.get("endPort", one["port"]) for one in rule["ports"])


def may(made: list[Manifest], sender: str, receiver: str, port: int) -> bool:
    policies = [one["spec"] for one in made if one["kind"] == "NetworkPolicy"]
    return all(
        part == OUTSIDE
        or any(
            allows(rule, peers, other, port)
            for policy in policies
            if selects(policy["podSelector"], part)
            for rule in policy.get(way, ())
        )
        for part, other, way, peers in (
            (sender, receiver, "egress", "to"),
            (receiver, sender, "ingress", "from"),
        )
    )


def test_nothing_is_open_that_no_policy_opens(made: list[Manifest]) -> None:
    closed = find(made, "NetworkPolicy", name="nothing-else")["spec"]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for one in made:
        if one["kind"] == "NetworkPolicy":
            ways = {way for way in ("Ingress", "Egress") if way.lower() in one["spec"]}
            assert ways == set(one["spec"]["policyTypes"]) or one["spec"] == closed


def test_only_sparks_parts_talk_to_each_other_and_all_that_answer_with_states_to_gateways(
    made: list[Manifest],
) -> None:
    talk = {
        (sender, receiver, port)
        for sender, receiver, port in product(parts(made), parts(made), PORTS)
        if may(made, sender, receiver, port)
    }
    assert talk == {
        ("jobs", "spark-master", 7077),
        ("spark-worker", "spark-master", 7077),
        ("spark-master", "spark-worker", 7078),
        ("spark-master", "jobs", 7070),
        ("spark-worker", "jobs", 7070),
        ("spark-worker", "jobs", 7071),
        ("jobs", "spark-worker", 7081),
        ("jobs", "spark-worker", 7097),
        ("spark-worker", "spark-worker", 7081),
        ("spark-worker", "spark-worker", 7097),
        ("gateway", "gateway", 8080),
        ("desk", "gateway", 8080),
    }


def test_executors_have_as_many_ports_as_spark_tries(made: list[Manifest]) -> None:
    settings = find(made, "ConfigMap", name="headrace-jobs")["data"]["HEADRACE_SPARK_CONF"]
    first = int(orjson.loads(settings)["spark.blockManager.port"])
    retries = int(orjson.loads(settings).get("spark.port.maxRetries", 16))
    assert may(made, "jobs", "spark-worker", first)
    assert may(made, "jobs", "spark-worker", first + retries)
    assert not may(made, "jobs", "spark-worker", first + retries + 1)


def test_only_who_uses_kafka_and_postgresql_reaches_them(made: list[Manifest]) -> None:
    for port in (9093, 5432):
        use = {part for part in parts(made) if may(made, part, OUTSIDE, port)}
        assert use == parts(made) - {"spark-master"}
    brokers = find(made, "ConfigMap", name="headrace-settings")["data"]["HEADRACE_KAFKA_BOOTSTRAP"]
    assert {int(one.rpartition(":")[2]) for one in brokers.split(",")} == {9093}
    tls = {part for part in parts(made) if may(made, part, OUTSIDE, 443)}
    assert tls == {"jobs", "spark-worker"}
    names = {part for part in parts(made) if may(made, part, OUTSIDE, 53)}
    assert names == parts(made)


def test_devices_reach_gateways_and_nobody_reaches_what_is_behind_them(
    made: list[Manifest],
) -> None:
    reached = {
        (part, port) for part, port in product(parts(made), PORTS) if may(made, OUTSIDE, part, port)
    }
    # 9090 and 8081 from the namespace of the monitoring alone
    assert reached == {("gateway", 8080), ("gateway", 9090), ("desk", 8081)}
    devices = find(made, "NetworkPolicy", name="devices-to-gateways")["spec"]["ingress"]
    assert [rule["ports"][0]["port"] for rule in devices if "from" not in rule] == [8080]
    desk = find(made, "NetworkPolicy", name="monitoring-to-desk")["spec"]["ingress"]
    assert all("from" in rule for rule in desk)
