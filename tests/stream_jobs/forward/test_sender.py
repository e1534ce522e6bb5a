"""What a worker process sends to real servers."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from shared.events.envelope import Position, event_headers, event_value
from shared.forwarding.hook import Hook, new_hook
from shared.kafka_access import KafkaAccess
from stream_jobs.forward.delivery import Delivery
from stream_jobs.forward.sender import LineRun, Sender, SenderTask
from stream_jobs.forward.sender import sender as its_sender
from tests.builders import event_record
from tests.stream_jobs.forward.target_server import Reply, TargetServer


@pytest.fixture
def target() -> Iterator[TargetServer]:
    with TargetServer() as server:
        yield server


@pytest.fixture
def sender() -> Sender:
    """The one of this process, as in a worker: each test has a hook of its own."""
    return its_sender(SenderTask(KafkaAccess("127.0.0.1:9"), frozenset({"127.0.0.1"}), buckets=1))


def a_hook(target: TargetServer, **fields: Any) -> Hook:
    made_ms = time.time_ns()
    ours = {"name": "alarms", "url": f"{target.url}/in", "made_ms": made_ms, "revision": made_ms}
    return new_hook(**{**ours, **fields})


def a_run(hook: Hook, entity: str, *, events: int = 1, is_slow: bool = False) -> LineRun:
    deliveries = []
    for number in range(events):
        one = event_record(entity_id=entity, id=f"{entity}-{number}")
        at = Position("event.reading.v1", 0, number)
        its = event_value(one), event_headers(one)
        deliveries.append((number, Delivery(hook.name, at, entity.encode(), *its, 1)))
    return LineRun(0, f"alarms\n{entity}", hook, [b"key"], 0, deliveries, is_slow)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_a_slow_hook_with_a_rate_is_sent_to_at_that_rate(
    sender: Sender, target: TargetServer
) -> None:
    """What no batch waits for must not use up the time of what is sent."""
    target.answers = lambda _: Reply(after_s=0.1)
    hook = a_hook(target, per_s=5)
    began_s = time.monotonic()
    while time.monotonic() < began_s + 1.2:
        runs = [a_run(hook, f"e{number}", is_slow=True) for number in range(4)]
        sent_ms = now_ms()
        sender.send(runs)
        left = [run for run in runs if run.left]
        assert len(left) <= 1
        held_ms = [run.not_before_ms for run in runs if run not in left]
        # a busy machine may stand still for a moment, while it sends and after that
        assert all(sent_ms <= until_ms <= now_ms() + 200 for until_ms in held_ms)
        time.sleep(max(0, max(held_ms) - now_ms()) / 1000)
    time.sleep(0.2)
    took_s = time.monotonic() - began_s
    assert 4 <= len(target.received()) <= 1 + 5 * took_s


def test_a_line_that_the_rate_has_held_back_says_until_when(
    sender: Sender, target: TargetServer
) -> None:
    run = a_run(a_hook(target, per_s=0.25), "a", events=2)
    sender.send([run])
    assert len(run.tried) == 1
    assert 3_000 <= run.not_before_ms - now_ms() <= 4_000


def test_lines_wait_a_second_where_those_that_are_slow_have_all_slots(
    sender: Sender, target: TargetServer
) -> None:
    target.answers = lambda _: Reply(after_s=0.5)
    hook = a_hook(target, concurrency=1)
    first, other = (a_run(hook, entity, is_slow=True) for entity in "ab")
    sent_ms = now_ms()
    sender.send([first, other])
    assert (first.left, other.left) == (1, 0)
    assert sent_ms + 1_000 <= other.not_before_ms <= now_ms() + 1_000


def test_lines_that_have_waited_for_others_of_their_hook_go_on_at_once(
    sender: Sender, target: TargetServer
) -> None:
    target.answers = lambda _: Reply(after_s=0.2)
    hook = a_hook(target, concurrency=1)
    runs = [a_run(hook, entity) for entity in "abcdefgh"]
    sender.send(runs)
    assert 2 <= sum(len(run.tried) for run in runs) <= 5
    assert not any(run.not_before_ms > now_ms() for run in runs)


def test_a_tenants_hook_reaches_no_host_that_is_allowed_to_operators_alone(
    sender: Sender, target: TargetServer
) -> None:
    its = a_run(a_hook(target, name="acme:alarms", tenant="acme"), "acme/a")
    ours = a_run(a_hook(target), "b")
    sender.send([its, ours])
    ((refused,), (sent,)) = (run.tried for run in (its, ours))
    assert refused.answer.status is None
    assert "HEADRACE_HOOKS_HOSTS_ALLOWED" in refused.answer.said
    assert sent.answer.status == 200
    assert len(target.received()) == 1
