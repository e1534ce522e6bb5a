"""The view's writer where states are divided: what it takes, gives up, and keeps, step by step on a
log that is played."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from clients.kafka.records import Partition
from gateway.state_view.own_divided_parts import OwnDividedParts
from gateway.state_view.own_parts import WholeCopy
from gateway.state_view.reader import Found, StateView
from gateway.state_view.records import Changes, Row
from gateway.state_view.store import ViewStore, view_path
from gateway.state_view.topics import TopicFacts
from gateway.state_view.writer import ViewWriter
from shared.timestamps import now_ms
from tests.gateway.state_view.test_view_records import Message

TOPIC = "state.device.v1"
ALL = "http://gateway-1", "http://gateway-2"


class At(Message):
    def __init__(self, partition: int, offset: int, key: str, version: int) -> None:
        value = orjson.dumps({"_meta": {"version": version, "event_time_ms": None}})
        super().__init__(key.encode(), value)
        self._fields |= {"partition": partition, "offset": offset}


class Log:
    """Of one topic. It hands out what it is told to."""

    def __init__(self, partitions: int) -> None:
        self._records: dict[int, list[tuple[str, int]]] = {p: [] for p in range(partitions)}
        self._at: dict[int, int] = {}
        self.topic_id = "id"
        self.held_up: set[int] = set()
        self.taken: dict[int, int] = defaultdict(int)

    def put(self, partition: int, key: str, version: int = 1) -> None:
        self._records[partition].append((key, version))

    def widen(self, partitions: int) -> None:
        self._records |= {p: [] for p in range(len(self._records), partitions)}

    def facts(self, _: Collection[str]) -> dict[str, TopicFacts]:
        ends = {p: len(records) for p, records in self._records.items()}
        return {TOPIC: TopicFacts(self.topic_id, dict.fromkeys(ends, 0), ends)}

    def ends(self, places: Iterable[Partition]) -> dict[Partition, int]:
        return {(topic, p): len(self._records[p]) for topic, p in places}

    def follow(self, positions: Mapping[Partition, int]) -> None:
        self._at = {p: offset for (_, p), offset in positions.items()}

    def take(self, _: float) -> list[Any]:
        found = []
        for p, offset in self._at.items():
            if p not in self.held_up and offset < len(self._records[p]):
                found.append(At(p, offset, *self._records[p][offset]))
                self._at[p] += 1
                self.taken[p] += 1
        return found


class Share(OwnDividedParts):
    """Of this topic; who is there and what this gateway takes is said here."""

    def __init__(self, *takes: int) -> None:
        self._topics = [TOPIC]
        self.takes_now = {*takes}
        self.keeps_all = False
        self.there: Sequence[str] = ALL

    @property
    def gateways(self) -> Sequence[str]:
        return self.there

    @property
    def trouble(self) -> str:
        return "" if self.there else "nobody is there"

    def takes(self, part: str, *, is_held: bool) -> bool:
        return int(part[-1]) in self.takes_now or (self.keeps_all and is_held)


class Room:
    def __init__(self, folder: Path, log: Log) -> None:
        self._folder = folder
        self.log = log
        self.view = StateView(folder)

    def writer(self, share: Share | WholeCopy) -> Callable[[int], None]:
        store: Any = ViewStore(view_path(self._folder))
        source: Any = self.log
        writer = ViewWriter(store, source, [TOPIC], share)

        def go_on(steps: int = 10) -> None:
            for _ in range(steps):
                writer._topics_due_s = writer._ends_due_s = 0.0
                writer.step()

        return go_on

    def knows(self, part: str, key: str) -> Found | None:
        return self.view.find(part, key.encode())[1]

    def caught_up_ms(self, part: str) -> int:
        return self.view.topic_progress(part).caught_up_ms or 0

    def held(self) -> set[str]:
        return {*self.view.progress()}


@pytest.fixture
def room(tmp_path: Path) -> Room:
    log = Log(3)
    for partition, key in enumerate("abc"):
        log.put(partition, key)
    return Room(tmp_path, log)


def test_it_reads_its_own_parts_and_no_others(room: Room) -> None:
    room.writer(Share(0, 2))(10)
    assert room.held() == {f"{TOPIC}/0", f"{TOPIC}/2"}
    assert room.knows(f"{TOPIC}/0", "a")
    assert room.log.taken == {0: 1, 2: 1}
    assert room.view.divided() == {TOPIC: 3}
    assert room.view.gateways() == sorted(ALL)


def test_a_part_that_takes_long_to_read_makes_no_other_old(room: Room) -> None:
    share = Share(0)
    go_on = room.writer(share)
    go_on(10)
    room.log.held_up = {1}
    share.takes_now = {0, 1}
    go_on(10)
    assert not room.view.topic_progress(f"{TOPIC}/1").warm
    before = now_ms()
    go_on(10)
    assert room.caught_up_ms(f"{TOPIC}/0") >= before
    room.log.held_up = set()
    go_on(10)
    assert room.view.topic_progress(f"{TOPIC}/1").warm


def test_what_is_given_up_is_gone_at_once_and_read_anew_when_it_comes_back(room: Room) -> None:
    share = Share(0, 1)
    go_on = room.writer(share)
    go_on(10)
    share.takes_now = {1}
    go_on(10)
    assert room.held() == {f"{TOPIC}/1"}
    assert room.knows(f"{TOPIC}/0", "a") is None
    room.log.put(0, "a", 2)
    share.takes_now = {0, 1}
    go_on(10)
    assert room.log.taken[0] == 3, "one before, and two anew"
    assert room.knows(f"{TOPIC}/0", "a")
    assert room.log.taken[1] == 1, "the other one goes on where it was"


def test_one_that_has_just_started_keeps_its_parts_and_whom_it_may_ask(room: Room) -> None:
    room.writer(Share(0, 1))(10)
    again = Share()  # it is no member yet
    again.there, again.keeps_all = (), True
    room.log.put(0, "a", 2)
    room.writer(again)(10)
    assert room.held() == {f"{TOPIC}/0", f"{TOPIC}/1"}
    assert room.view.gateways() == sorted(ALL)
    assert room.log.taken == {0: 2, 1: 1}, "it goes on, and begins nothing anew"


def test_a_copy_that_is_too_old_to_have_seen_deletions_is_read_anew(room: Room) -> None:
    room.writer(Share(0))(10)
    store = ViewStore(view_path(room._folder))
    store.caught_up([f"{TOPIC}/0"], now_ms() - 21 * 3600 * 1000)
    store.close()
    room.writer(Share(0))(10)
    assert room.log.taken[0] == 2


def test_a_whole_copy_is_divided_where_it_lies_and_made_whole_by_reading_again(room: Room) -> None:
    room.writer(WholeCopy())(10)
    assert room.held() == {TOPIC}
    share = Share(0, 1, 2)
    go_on = room.writer(share)
    go_on(10)
    assert room.held() == {f"{TOPIC}/{p}" for p in range(3)}
    assert room.knows(f"{TOPIC}/2", "c")
    assert room.log.taken == {0: 1, 1: 1, 2: 1}, "nothing was read again"
    room.writer(WholeCopy())(10)
    assert room.held() == {TOPIC}
    assert room.knows(TOPIC, "c")
    assert (room.view.divided(), room.view.gateways()) == ({}, [])


def test_what_an_earlier_time_has_left_is_not_taken_for_states_of_now(room: Room) -> None:
    room.writer(WholeCopy())(10)
    store = ViewStore(view_path(room._folder))
    part, left = f"{TOPIC}/0", Changes()
    store.begin_topic(part, "id")
    left.put(Row(part, b"deleted since", b"{}", 1, 5, 0, 0))
    store.apply(left)
    store.leave_topic(part)  # and nothing of it is swept yet
    store.divide(TOPIC)
    while store.sweep():
        pass
    store.close()
    assert room.knows(part, "a"), "swept with what was left"
    assert room.knows(part, "deleted since") is None


def test_more_partitions_of_the_same_topic_move_no_key(room: Room) -> None:
    share = Share(0, 1, 2)
    go_on = room.writer(share)
    go_on(10)
    room.log.widen(4)
    go_on(10)
    assert room.view.divided() == {TOPIC: 3}
    room.log.topic_id = "another"
    go_on(10)
    assert room.view.divided() == {TOPIC: 4}


def test_it_tells_why_states_may_be_held_less_often(room: Room) -> None:
    assert room.view.trouble_of_division() == "how states are divided is not known yet"
    share = Share(0)
    go_on = room.writer(share)
    go_on(2)
    assert room.view.trouble_of_division() == ""
    share.there = ()
    go_on(2)
    assert room.view.trouble_of_division() == "nobody is there"
    assert room.view.gateways() == sorted(ALL)
