from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.streams.log_position import (
    BadPosition,
    Layout,
    LogPosition,
    Scope,
    is_behind,
    read_id,
)

TOPICS = {"event.reading.v1": 4, "event.retired.v1": 2, "event.alarm_raised.v1": 1}
LAYOUT = Layout(TOPICS)
OFFSETS = st.lists(st.integers(0, 2**63 - 1), min_size=7, max_size=7)


def offsets_after(scope: Scope, id_: bytes) -> dict[int, int]:
    return scope.offsets_of(read_id(id_.decode()))


@given(OFFSETS)
def test_an_id_says_where_its_reader_was(offsets: list[int]) -> None:
    scope = Scope(LAYOUT, None)
    assert offsets_after(scope, scope.id_of(LogPosition(offsets))) == dict(enumerate(offsets))


@given(OFFSETS)
def test_an_id_of_some_topics_says_nothing_of_others(offsets: list[int]) -> None:
    scope = Scope(LAYOUT, ["event.retired.v1"])
    id_ = scope.id_of(LogPosition(offsets))
    assert offsets_after(scope, id_) == {4: offsets[4], 5: offsets[5]}
    with pytest.raises(BadPosition, match="another `type`"):
        offsets_after(Scope(LAYOUT, None), id_)
    with pytest.raises(BadPosition, match="another `type`"):
        offsets_after(Scope(LAYOUT, ["event.reading.v1"]), id_)


def test_a_position_that_moves_on_has_the_id_of_one_that_is_there() -> None:
    scope = Scope(LAYOUT, None)
    moving = LogPosition([0] * 7)
    before = moving.copy()
    moving.advance(3, 70_000)
    assert scope.id_of(moving) == scope.id_of(LogPosition([0, 0, 0, 70_000, 0, 0, 0]))
    assert before.offsets == [0] * 7


def test_topics_and_partitions_that_were_made_later_are_not_named() -> None:
    id_ = Scope(Layout({"event.reading.v1": 2}), None).id_of(LogPosition([5, 6]))
    assert offsets_after(Scope(LAYOUT, None), id_) == {0: 5, 1: 6}


def test_an_id_with_more_partitions_than_there_are_is_refused() -> None:
    id_ = Scope(Layout({"event.reading.v1": 9}), None).id_of(LogPosition([1] * 9))
    with pytest.raises(BadPosition, match="more partitions"):
        offsets_after(Scope(LAYOUT, None), id_)


def test_a_type_that_the_flow_has_no_more_is_passed_over() -> None:
    id_ = Scope(Layout({"event.reading.v1": 1, "event.old.v1": 1}), None).id_of(LogPosition([5, 6]))
    assert offsets_after(Scope(LAYOUT, None), id_) == {0: 5}


@given(OFFSETS, st.data())
def test_an_id_with_a_wrong_character_is_refused(offsets: list[int], data: st.DataObject) -> None:
    id_ = Scope(LAYOUT, None).id_of(LogPosition(offsets)).decode()
    at = data.draw(st.integers(0, len(id_) - 1))
    other = data.draw(st.sampled_from("Ab0-_").filter(lambda one: one != id_[at]))
    changed = id_[:at] + other + id_[at + 1 :]
    with suppress(BadPosition):
        assert read_id(changed) == read_id(id_)  # bits that base64 does not use


@given(st.text(max_size=200))
def test_whatever_is_sent_as_an_id_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(BadPosition):
        read_id(text)


def test_the_id_of_the_sample_is_short() -> None:
    layout = Layout({f"event.{name}.v1": 4 for name in "abcde"})
    assert len(Scope(layout, None).id_of(LogPosition([1_000_000] * 20))) < 130


def test_behind_is_who_is_behind_anywhere_it_reads() -> None:
    assert is_behind([1, 5], [2, 3], (0, 1))
    assert not is_behind([1, 5], [2, 3], (1,))
    assert not is_behind([2, 3], [2, 3], (0, 1))
