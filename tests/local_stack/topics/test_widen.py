"""The steps of a widening, with a gateway and a log that are played."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.kafka_writer.known_partitions import KnownPartitions
from gateway.spool.writing_right import WritingRight
from local_stack.terminal.errors import StackError
from local_stack.topics import held_gateways
from local_stack.topics import widen as widen_module
from local_stack.topics.held_gateways import one_widening
from local_stack.topics.widen import Ends, RefusedError, Widening
from stream_jobs.guards.widened_topics import WidenedTopics

TOPIC = "ingest.telemetry.v1"
NODES = {"gateway": "", "gateway-2": "gateway-2"}


class PlayedLog:
    def __init__(self) -> None:
        self.partitions = 4
        self.end = 100
        self.grows = 0  # by so many with each look
        self.left: list[int] = []  # for the reader, from look to look
        self.on_widen: Callable[[], Any] = lambda: None
        self.on_unread: Callable[[], Any] = lambda: None

    def count(self) -> int | None:
        return self.partitions

    def ends(self) -> Ends:
        self.end += self.grows
        return {(TOPIC, number): self.end for number in range(self.partitions)}

    def unread(self, _: Ends) -> dict[str, int]:
        self.on_unread()
        return {"enrich": self.left.pop(0) if self.left else 0}

    def widen(self, to: int) -> None:
        self.on_widen()
        self.partitions = to


class PlayedGateway(threading.Thread):
    """Writes while it may."""

    def __init__(self, node: Path) -> None:
        super().__init__(daemon=True)
        self.right = WritingRight(node / "spool" / "topics" / TOPIC)
        self.right.take()
        self.known = KnownPartitions(node, {})
        self.known.remember(TOPIC, 4)
        self.is_busy = False
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.005):
            if self.right.is_mine and self.right.is_wanted() and not self.is_busy:
                self.right.give_back()
            else:
                self.right.take()


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widen_module, "_HELD_WITHIN_S", 0.5)
    monkeypatch.setattr(widen_module, "_LOOK_S", 0.01)


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[dict[str, PlayedGateway]]:
    found = {name: PlayedGateway(tmp_path / folder) for name, folder in NODES.items()}
    for gateway in found.values():
        gateway.start()
    yield found
    for gateway in found.values():
        gateway.over.set()
        gateway.join()
        gateway.right.close()


def _widening(log: PlayedLog, state_dir: Path, said: list[str] | None = None) -> Widening:
    return Widening(log, state_dir, TOPIC, (said if said is not None else []).append, still_s=0.02)


def _write_again(gateways: dict[str, PlayedGateway]) -> bool:
    until_s = time.monotonic() + 5
    while not all(gateway.right.is_mine for gateway in gateways.values()):
        if time.monotonic() > until_s:
            return False
        time.sleep(0.005)
    return True


def test_it_comes_when_nobody_writes_and_all_is_read_and_known_to_all(
    tmp_path: Path, gateways: dict[str, PlayedGateway]
) -> None:
    log, said = PlayedLog(), list[str]()
    log.left = [0, 7, 3, 0]
    accepted = WidenedTopics(tmp_path)
    seen: list[Any] = []

    def look() -> None:
        seen.append([gateway.right.is_mine for gateway in gateways.values()])
        seen.append([gateway.known.of(TOPIC) for gateway in gateways.values()])
        seen.append(accepted.accepts(TOPIC, 8))

    log.on_unread = log.on_widen = look
    done = _widening(log, tmp_path, said).widen(8, NODES, 10)
    assert seen[:3] == [[True, True], [4, 4], False]  # before they are held
    del seen[:3]
    assert done[:3] == (TOPIC, 4, 8)
    held = [False, False]
    assert seen == [held, [4, 4], False] * 3 + [held, [8, 8], True]
    assert said == ["the gateways accept into their spools", "enrich has 7 records to do"]
    assert _write_again(gateways)
    assert _widening(log, tmp_path).is_done(8)


def test_nobody_is_held_before_little_is_left(
    tmp_path: Path, gateways: dict[str, PlayedGateway]
) -> None:
    """Or the spools would have to take what comes in the time of the whole lag."""
    log = PlayedLog()
    log.left = [90_000, 40_000, 1_500, 0]
    writes: list[bool] = []
    log.on_unread = lambda: writes.append(all(one.right.is_mine for one in gateways.values()))
    _widening(log, tmp_path).widen(8, NODES, 10)
    assert writes == [True, True, True, False]


def test_it_may_be_widened_again_and_again(
    tmp_path: Path, gateways: dict[str, PlayedGateway]
) -> None:
    log, accepted = PlayedLog(), WidenedTopics(tmp_path)
    _widening(log, tmp_path).widen(8, NODES, 10)
    # of a job that works with four, or with eight: it goes on whatever Kafka says just then
    log.on_widen = lambda: accepted.accepts(TOPIC, 8) or pytest.fail("it is eight until then")
    _widening(log, tmp_path).widen(16, NODES, 10)
    assert accepted.accepts(TOPIC, 16)
    assert [gateway.known.of(TOPIC) for gateway in gateways.values()] == [16, 16]


def test_what_kafka_refuses_leaves_all_as_it_was(
    tmp_path: Path, gateways: dict[str, PlayedGateway]
) -> None:
    log = PlayedLog()

    def refuse() -> None:
        raise RefusedError("Kafka did not give it", "do what it says")

    log.on_widen = refuse
    assert _refused(log, tmp_path, gateways) == "Kafka did not give it"


def test_where_kafka_does_not_say_the_jobs_accept_either(
    tmp_path: Path, gateways: dict[str, PlayedGateway]
) -> None:
    log = PlayedLog()

    def say_nothing() -> None:
        raise StackError("Kafka has not said", "look")

    log.on_widen = say_nothing
    with pytest.raises(StackError, match="has not said"):
        _widening(log, tmp_path).widen(8, NODES, 10)
    assert all(WidenedTopics(tmp_path).accepts(TOPIC, count) for count in (4, 8))
    assert _write_again(gateways)


def test_the_jobs_are_told_of_one_that_others_have_widened(
    tmp_path: Path, gateways: dict[str, PlayedGateway]
) -> None:
    log = PlayedLog()
    log.partitions = 8
    for gateway in gateways.values():
        gateway.known.remember(TOPIC, 8)
    assert _widening(log, tmp_path).is_done(8)
    assert WidenedTopics(tmp_path).accepts(TOPIC, 8)


def test_a_gateway_that_never_wrote_to_it_knows_the_new_number_too(
    tmp_path: Path, gateways: dict[str, PlayedGateway]
) -> None:
    (tmp_path / "gateway-2" / "partitions" / TOPIC).unlink()
    _widening(PlayedLog(), tmp_path).widen(8, NODES, 10)
    assert gateways["gateway-2"].known.of(TOPIC) == 8


def _refused(
    log: PlayedLog, state_dir: Path, gateways: dict[str, PlayedGateway], within_s: float = 10
) -> str:
    with pytest.raises(StackError) as refused:
        _widening(log, state_dir).widen(8, NODES, within_s)
    assert log.partitions == 4
    assert [gateway.known.of(TOPIC) for gateway in gateways.values()] == [4, 4]
    assert not WidenedTopics(state_dir).accepts(TOPIC, 8)
    assert _write_again(gateways)
    assert refused.value.fix
    return refused.value.what


def test_a_gateway_that_does_not_end_what_it_has_under_way_is_named(
    tmp_path: Path, gateways: dict[str, PlayedGateway]
) -> None:
    gateways["gateway-2"].is_busy = True
    said = _refused(PlayedLog(), tmp_path, gateways)
    assert said.startswith(f"gateway-2 has had payloads for {TOPIC} under way for 0 s")


def test_a_gateway_without_a_spool_is_named(
    tmp_path: Path, gateways: dict[str, PlayedGateway]
) -> None:
    gateway = gateways["gateway-2"]
    gateway.over.set()
    gateway.join()
    gateway.right.give_back()
    with pytest.raises(StackError, match="gateway-2 does not say whether it writes to"):
        _widening(PlayedLog(), tmp_path).widen(8, NODES, 10)


def test_somebody_who_writes_all_the_same_is_noticed(
    tmp_path: Path, gateways: dict[str, PlayedGateway]
) -> None:
    log = PlayedLog()
    log.grows = 1
    assert "who is no gateway of this stack" in _refused(log, tmp_path, gateways)


def test_somebody_who_writes_while_the_jobs_catch_up_is_noticed(
    tmp_path: Path, gateways: dict[str, PlayedGateway]
) -> None:
    log = PlayedLog()
    log.on_unread = lambda: setattr(log, "grows", 1)
    assert "who is no gateway of this stack" in _refused(log, tmp_path, gateways)


def test_a_job_that_does_not_come_to_the_end_is_named(
    tmp_path: Path, gateways: dict[str, PlayedGateway]
) -> None:
    log = PlayedLog()
    log.left = [5] * 1000
    said = _refused(log, tmp_path, gateways, within_s=0.1)
    assert said.startswith(f"after 0 s enrich has 5 records to do of {TOPIC}")


def test_what_was_ended_after_the_topic_had_its_partitions_is_made_whole(
    tmp_path: Path, gateways: dict[str, PlayedGateway]
) -> None:
    log = PlayedLog()
    log.partitions = 8
    assert not _widening(log, tmp_path).is_done(8)
    log.on_widen = lambda: pytest.fail("it has them")
    # or the jobs that have stopped by name would never reach the end
    log.on_unread = lambda: WidenedTopics(tmp_path).accepts(TOPIC, 8) or pytest.fail("not accepted")
    _widening(log, tmp_path).widen(8, NODES, 10)
    assert [gateway.known.of(TOPIC) for gateway in gateways.values()] == [8, 8]
    assert _widening(log, tmp_path).is_done(8)


def test_two_at_a_time_are_refused(tmp_path: Path) -> None:
    with (
        one_widening(tmp_path),
        pytest.raises(StackError, match="a topic is being widened"),
        held_gateways.one_widening(tmp_path),
    ):
        pass
