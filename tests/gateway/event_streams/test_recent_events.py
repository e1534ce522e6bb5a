from random import Random

import pytest

from gateway.event_streams.recent_events import EventEntry, RecentEvents
from gateway.streams.log_position import LogPosition
from shared.events.envelope import Position

PLACES = (0, 1, 2)


def entry(place: int, offset: int) -> EventEntry:
    return EventEntry(place, Position("event.reading.v1", place, offset), b"device", b"x" * 100)


def filled(seed: int, number: int, bytes_max: int = 10**9) -> tuple[RecentEvents, list[EventEntry]]:
    chance, next_ = Random(seed), [10, 20, 30]
    recent, put = RecentEvents(next_, bytes_max), []
    for _ in range(number):
        place = chance.randrange(3)
        put.append(entry(place, next_[place]))
        recent.put(put[-1])
        next_[place] += chance.choice((1, 1, 1, 2))  # a hole where a transaction ended
    return recent, put


def read_on(recent: RecentEvents, offsets: list[int]) -> list[EventEntry]:
    position, found = LogPosition(offsets), []
    number = recent.number_for(offsets, PLACES)
    while some := recent.since(number, 7):
        number += len(some)
        for one in some:
            if one.position.offset >= position.offsets[one.place]:
                position.advance(one.place, one.position.offset + 1)
                found.append(one)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_from_any_position_nothing_is_missing_and_nothing_comes_twice(seed: int) -> None:
    recent, put = filled(seed, 2000)
    chance = Random(seed)
    offsets = [
        chance.randrange(begin, end + 1)
        for begin, end in zip((10, 20, 30), recent.now.offsets, strict=True)
    ]
    wanted = [one for one in put if one.position.offset >= offsets[one.place]]
    assert read_on(recent, offsets) == wanted


def test_a_position_of_this_node_is_found_without_looking_through_all() -> None:
    recent, put = filled(1, 5000)
    offsets = [10, 20, 30]
    for one in put[:4000]:
        offsets[one.place] = one.position.offset + 1
    assert 3700 < recent.number_for(offsets, PLACES) <= 4000
    assert recent.number_for(recent.now.offsets, PLACES) > 4700


@pytest.mark.parametrize("seed", range(5))
def test_what_is_forgotten_is_told_by_where_it_begins(seed: int) -> None:
    recent, put = filled(seed, 3000, bytes_max=500_000)
    assert recent.bytes <= 500_000
    assert 100 < recent.end - recent.first < 1500
    begins = [*recent.begins]
    assert recent.have_all_since(begins, PLACES)
    wanted = [one for one in put if one.position.offset >= begins[one.place]]
    assert read_on(recent, begins) == wanted == put[recent.first :]
    for place in PLACES:
        older = [*begins]
        older[place] -= 1
        assert not recent.have_all_since(older, PLACES)
        assert recent.have_all_since(older, [other for other in PLACES if other != place])


def test_who_was_left_behind_begins_with_the_first_that_is_there() -> None:
    recent, put = filled(3, 3000, bytes_max=100_000)
    assert recent.since(0, 1) == [put[recent.first]]
