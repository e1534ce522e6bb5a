"""Three gateways that each hold a part of the states, on a real broker: each of them answers for
all, also while one is killed, and when it is back."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer
from pydantic import SecretStr

from gateway.peers.lookup import Lookup
from gateway.state_view.holders import ranked
from gateway.state_view.parts import part_of
from gateway.state_view.peer_protocol import HELD_PATH, STATES_PATH
from gateway.state_view.reader import StateView
from local_stack.run.stack import Stack
from shared.errors import StaleMasterDataError
from shared.flow import FLOW
from shared.settings import GatewaySettings
from shared.topic_names import CREDENTIAL_TOPIC, JOB_STATUS_TOPIC
from tests.gateway.support import GatewayProcess, until

pytestmark = pytest.mark.stack

TOPIC, PARTITIONS, COPIES = "state.device.v1", 4, 2
AREA = FLOW.aggregates[0]
KEYS = [f"held-{number:03}" for number in range(60)]
TOKEN = {"authorization": "Bearer of-gateways"}


class Gateway(GatewayProcess):
    def __init__(self, bootstrap: str, folder: Path) -> None:
        its = {"state_copies": COPIES, "peer_token": "of-gateways", "wait_max_s": 5}
        super().__init__(bootstrap, folder, **its)
        self.state_dir = folder
        self.url = f"http://127.0.0.1:{self.port}"
        self._environment["HEADRACE_PEER_URL"] = self.url

    def holds(self) -> set[str]:
        return {*self.client.get(HELD_PATH, headers=TOKEN).json()["parts"]}

    def versions(self) -> set[int | None]:
        """Of all states; None: it does not know one."""
        answers = (self.client.get(f"/state/{key}") for key in KEYS)
        return {it.json()["version"] if it.status_code == 200 else None for it in answers}


class Topic:
    def __init__(self, bootstrap: str) -> None:
        options = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._producer = Producer({**options, "partitioner": "murmur2_random"})

    def put(self, version: int) -> None:
        for key in KEYS:
            meta = {"version": version, "event_time_ms": None}
            value = json.dumps({"count": version, "_meta": meta})
            self._producer.produce(TOPIC, value, key)
        assert self._producer.flush(60) == 0


@pytest.fixture
def topic(broker: Stack) -> Topic:
    return Topic(broker.kafka_bootstrap)


@pytest.fixture
def three(broker: Stack, tmp_path: Path) -> Iterator[list[Gateway]]:
    found = [Gateway(broker.kafka_bootstrap, tmp_path / str(number)) for number in range(3)]
    with found[0], found[1], found[2]:
        until(lambda: _are_settled(found), 60)
        yield found


def _are_settled(gateways: list[Gateway]) -> bool:
    """Each holds its own share. Of three each state is held by two also before the third begins."""
    urls = [one.url for one in gateways]
    parts = [part_of(TOPIC, partition) for partition in range(PARTITIONS)]
    first = {part: ranked(urls, part)[:COPIES] for part in parts}
    return all(one.holds() == {it for it in parts if one.url in first[it]} for one in gateways)


def _are_shared(gateways: list[Gateway]) -> bool:
    held = Counter(part for one in gateways for part in one.holds())
    return len(held) == PARTITIONS and {*held.values()} == {COPIES}


def test_each_of_three_answers_for_all_and_holds_its_part(
    three: list[Gateway], topic: Topic
) -> None:
    topic.put(1)
    for gateway in three:
        until(lambda: gateway.versions() == {1}, 10)  # noqa: B023
    topic.put(2)
    for gateway in three:
        # it waits for what another one is to hold
        answers = [_at_least(gateway, key, 2) for key in KEYS[:20]]
        assert {answer.status_code for answer in answers} == {200}, answers[0].text
        assert {answer.json()["state"]["count"] for answer in answers} == {2}
        until(lambda: _at_least(gateway, KEYS[0], 9, "50ms").status_code == 412, 10)  # noqa: B023
        lists = gateway.client.get("/state/device?limit=1")
        assert (lists.status_code, lists.json()["code"]) == (501, "states_divided")
        until(lambda: gateway.client.get("/state/nobody").status_code == 404, 10)  # noqa: B023
        until(lambda: _seen_beside(gateway) == {2}, 10)  # noqa: B023
        whole = StateView(gateway.state_dir)
        assert {AREA.topic, JOB_STATUS_TOPIC, CREDENTIAL_TOPIC} <= whole.progress().keys()
        whole.close()
        for path in (HELD_PATH, STATES_PATH):
            refused = gateway.client.get(path), gateway.client.post(path, json={"keys": []})
            assert {it.status_code for it in refused} == {401, 405}


def test_one_that_is_killed_is_stood_in_for_and_takes_its_part_again(
    three: list[Gateway], topic: Topic
) -> None:
    topic.put(3)
    killed, *others = three
    was_held = killed.holds()
    killed.kill()
    for gateway in others:  # long before anybody is taken for gone: the other copy
        until(lambda: gateway.versions() == {3}, 5)  # noqa: B023
        until(lambda: _seen_beside(gateway) == {3}, 5)  # noqa: B023
    topic.put(4)
    for gateway in others:
        until(lambda: gateway.versions() == {4}, 10)  # noqa: B023
    until(lambda: _are_shared(others), 60)  # which means that each of two holds all
    killed.start()
    until(lambda: _are_shared(three) and killed.holds() == was_held, 60)
    for gateway in three:
        until(lambda: gateway.versions() == {4}, 10)  # noqa: B023
    for gateway in others:
        gateway.kill()
    until(lambda: "Kafka counts 1" in _health_of_view(killed), 60)
    until(lambda: killed.versions() == {4}, 30)  # it has read what the others held


def _health_of_view(gateway: Gateway) -> str:
    (check,) = gateway.client.get("/health").json()["checks"]["state_view:lag"]
    return str(check.get("output", ""))


def _seen_beside(gateway: Gateway) -> set[int | None]:
    """By a program on its machine, such as the desk. None: nobody tells it now."""
    token, folder = SecretStr("of-gateways"), gateway.state_dir
    states = Lookup(GatewaySettings(state_copies=COPIES, peer_token=token, state_dir=folder))
    try:
        return {json.loads(states.find(TOPIC, key.encode()) or b"")["count"] for key in KEYS}
    except StaleMasterDataError:
        return {None}
    finally:
        states.close()


def _at_least(gateway: Gateway, key: str, version: int, timeout: str = "5s") -> httpx.Response:
    headers = {"if-version-at-least": str(version)}
    return gateway.client.get(f"/state/{key}?timeout={timeout}", headers=headers)


def test_the_sample_has_an_entity_with_such_a_topic() -> None:
    assert FLOW.entities[0].topic == TOPIC
