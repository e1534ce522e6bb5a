"""`./headrace up` itself: each process killed under load, the launcher too, and up again after
Ctrl-C, all of it on one state folder.

HEADRACE_TEST_SEED=7 repeats a load, HEADRACE_TEST_STARTS=10 and HEADRACE_TEST_KILL_ROUNDS=3 make
it long.
"""

import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

import httpx
import orjson
import psycopg
import pytest

from shared.flow import load_flow
from tests.end_to_end.launcher import Launcher, descendants, parents_of_all, state_of
from tests.end_to_end.load import CLIENTS, Load
from tests.kafka_log import distinct_events, eventually, last_values, read_topic
from tests.oracle import expected_states

pytestmark = pytest.mark.stack

FLOW = load_flow()
STARTS = int(os.environ.get("HEADRACE_TEST_STARTS", "3"))
KILL_ROUNDS = int(os.environ.get("HEADRACE_TEST_KILL_ROUNDS", "1"))
INTERRUPTED_AT_S = (0.4, 1.0, 2.0, 5.0)
WITNESS = "device-0999"
WITHIN_S = 600.0  # many times what it takes where nothing else runs


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    launcher = Launcher(tmp_path_factory.mktemp("up") / "state")
    yield launcher
    launcher.end()


def service(name: str) -> Callable[[Launcher], int | None]:
    return lambda launcher: launcher.service_pid(name)


def child_of(name: str, words: str) -> Callable[[Launcher], int | None]:
    def find(launcher: Launcher) -> int | None:
        pid = launcher.service_pid(name)
        children = descendants(pid) if pid else {}
        return next((child for child, command in children.items() if words in command), None)

    return find


def worker_of_spark(launcher: Launcher) -> int | None:
    """One that a daemon of Spark's has forked, not the daemon: whose workers stay in service."""
    pid = launcher.service_pid("spark")
    python = {
        p for p, said in (descendants(pid) if pid else {}).items() if "pyspark.daemon" in said
    }
    parents = parents_of_all()
    return next((p for p in python if parents.get(p) in python), None)


PARTS = {
    "gateway": service("gateway"),
    "view writer": child_of("gateway", "gateway.view_writer"),
    "relay": service("relay"),
    "Spark's driver": service("spark"),
    "Spark's JVM": child_of("spark", "org.apache.spark"),
    "a Python worker of Spark": worker_of_spark,
    "PostgreSQL": service("postgres"),
    "Kafka": service("kafka"),
}


def test_killed_parts_come_back_and_nothing_accepted_is_lost(launcher: Launcher) -> None:
    print(f"first start: {launcher.start():.1f} s")
    seed = int(os.environ.get("HEADRACE_TEST_SEED", random.randrange(1 << 32)))
    print(f"HEADRACE_TEST_SEED={seed}")
    load = Load(launcher.gateway_url, seed)
    load.start()
    try:
        for _ in range(KILL_ROUNDS):
            for name, find in PARTS.items():
                _kill_and_see_it_back(launcher, load, name, find)
            _kill_launcher(launcher, load)
    finally:
        load.stop()
    assert load.wrong_answers == []
    _check_the_books(launcher, load)


def _kill_and_see_it_back(
    launcher: Launcher, load: Load, name: str, find: Callable[[Launcher], int | None]
) -> None:
    pid = find(launcher)
    assert pid is not None, f"{name} is not there to be killed"
    began_s = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: find(launcher) not in (None, pid) and launcher.is_ready(), WITHIN_S)
    _wait_until_stored(launcher, load)
    launcher.assert_no_orphan()
    print(f"{name}: what was accepted after it was stored {time.monotonic() - began_s:.1f} s after")


def _kill_launcher(launcher: Launcher, load: Load) -> None:
    ports = launcher.status()["ports"]
    launcher.kill()
    started_s = launcher.start()
    _wait_until_stored(launcher, load)
    launcher.assert_no_orphan()
    ports_now = launcher.status()["ports"]
    for name in ("gateway", "kafka", "postgres"):
        assert ports_now[name] == ports[name], "the last run's server still had its port"
    print(f"launcher: up again after {started_s:.1f} s")


def _wait_until_stored(launcher: Launcher, load: Load) -> None:
    """What was accepted after the kill, too, has gone all the way."""
    so_far = len(load.accepted)

    def later() -> list[str]:
        return [sent.id for sent in load.accepted[so_far:] if not sent.is_letter]

    eventually(lambda: len(later()) > CLIENTS, WITHIN_S)
    last = later()[-1]
    eventually(lambda: any(last in told for told in _completions(launcher).values()), WITHIN_S)
    assert _rows(launcher, "SELECT 1 FROM headrace.event WHERE event_id = %s", last)


def _check_the_books(launcher: Launcher, load: Load) -> None:
    kafka = launcher.status()["kafka_bootstrap"]
    accepted = {sent.id for sent in load.accepted}
    letters = {sent.id for sent in load.accepted if sent.is_letter}
    events = accepted - letters
    assert len(accepted) == len(load.accepted), "two payloads got one id"

    in_log = {
        (topic, record.partition, record.offset): record
        for topic in {endpoint.topic for endpoint in FLOW.endpoints}
        for record in read_topic(kafka, topic)
    }
    by_id = {record.headers["ce_id"].decode(): record for record in in_log.values()}
    for sent in load.accepted:
        record = by_id[sent.id] if sent.place is None else in_log[sent.topic, *sent.place]
        assert (record.value, record.headers["ce_id"].decode()) == (sent.body, sent.id)
    assert by_id.keys() == accepted

    eventually(lambda: len(_stored_ids(launcher)) >= len(events), WITHIN_S)
    assert sorted(_stored_ids(launcher)) == sorted(events)
    eventually(lambda: not _rows(launcher, "SELECT 1 FROM headrace.outbox"), WITHIN_S)
    completions = _completions(launcher)
    assert {event_id for ids in completions.values() for event_id in ids} == events
    assert len(completions) == len(events)
    assert all(len(ids) == 1 for ids in completions.values())
    assert {r.headers["ce_id"].decode() for r in read_topic(kafka, "dlq.enrich.v1")} == letters
    for lane in set(FLOW.lanes) - {"dlq.enrich.v1"}:
        assert not read_topic(kafka, lane), lane

    logged = [event for t in FLOW.event_types for event in distinct_events(kafka, t.topic)]
    assert {event["id"] for event in logged} == events
    expected = expected_states(logged)
    eventually(lambda: _snapshots(kafka) == expected, WITHIN_S)
    query = "SELECT id, state FROM headrace.entity_state WHERE entity = 'device'"
    eventually(lambda: dict(_rows(launcher, query)) == expected, WITHIN_S)
    shown = {device: state_of(launcher.gateway_url, device) for device in expected}
    assert shown == expected
    again = sum(sent.tries for sent in load.accepted)
    repeats = len(in_log) - len(accepted)
    print(
        f"{len(accepted)} accepted, {len(letters)} of them letters; {again} sent again, {repeats}"
    )


def _stored_ids(launcher: Launcher) -> list[str]:
    return [event_id for (event_id,) in _rows(launcher, "SELECT event_id FROM headrace.event")]


def _rows(launcher: Launcher, query: str, *arguments: str) -> list[tuple]:
    with psycopg.connect(launcher.status()["postgres_url"]) as connection:
        return connection.execute(query.encode(), arguments).fetchall()


def _completions(launcher: Launcher) -> dict[str, set[str]]:
    """By completion id, the events that it tells of."""
    found = defaultdict(set)
    for event_type in FLOW.event_types:
        for record in read_topic(launcher.status()["kafka_bootstrap"], event_type.completion_topic):
            told = orjson.loads(record.value or b"{}")["event_id"]
            found[record.headers["ce_id"].decode()].add(told)
    return found


def _snapshots(kafka: str) -> dict[str, dict]:
    return {
        device: {name: value for name, value in snapshot.items() if name != "_meta"}
        for device, snapshot in last_values(kafka, "state.device.v1").items()
    }


def test_up_again_and_again_after_ctrl_c(launcher: Launcher) -> None:
    """The one that runs already is the first of the starts."""
    if not launcher.starts_s:
        launcher.start()
    before = (state_of(launcher.gateway_url, WITNESS) or {"count": 0})["count"]
    for number in range(1, STARTS + 1):
        if number > 1:
            print(f"start {number}: {launcher.start():.1f} s")
        _post_reading(launcher)
        eventually(lambda count=before + number: _count(launcher) == count, WITHIN_S)
        if number == STARTS:
            launcher.close_terminal()
        else:
            launcher.press_ctrl_c()
            assert "Headrace has stopped" in launcher.said, launcher.said
        launcher.assert_nothing_is_left()
    assert "Traceback" not in launcher.said


def test_ctrl_c_at_any_moment_of_a_start_leaves_nothing(launcher: Launcher) -> None:
    for moment_s in INTERRUPTED_AT_S:
        launcher.begin()
        time.sleep(moment_s)
        launcher.press_ctrl_c()
        assert "Traceback" not in launcher.said, launcher.said
        launcher.assert_nothing_is_left()


def test_ctrl_c_twice_stops_at_once_and_leaves_nothing(launcher: Launcher) -> None:
    launcher.begin()
    eventually(lambda: "Kafka is up" in launcher.said, WITHIN_S)
    launcher.press_ctrl_c(times=2)
    assert "Traceback" not in launcher.said, launcher.said
    eventually(lambda: not launcher.processes(), 20)


def _post_reading(launcher: Launcher) -> None:
    answer = httpx.post(
        f"{launcher.gateway_url}/v1/telemetry/{WITNESS}", content=b'{"value": 1}', timeout=20
    )
    assert answer.status_code == 202, answer.text


def _count(launcher: Launcher) -> int | None:
    state = state_of(launcher.gateway_url, WITNESS)
    return state["count"] if state else None
