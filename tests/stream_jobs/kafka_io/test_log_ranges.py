import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.kafka.records import from_json
from shared.errors import LogCutError
from stream_jobs.kafka_io.log_ranges import LogRange, as_json, planned, ranges, shared_out

OFFSETS = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.dictionaries(st.integers(0, 5), st.integers(0, 5_000), min_size=1),
)


def test_a_range_is_what_lies_between_and_a_new_partition_begins_with_its_first_record() -> None:
    assert ranges({"a": {0: 4, 1: 9}}, {"a": {0: 6, 1: 9, 2: 3}, "b": {0: 1}}) == [
        LogRange("a", 0, 4, 6),
        LogRange("a", 2, 0, 3),
        LogRange("b", 0, 0, 1),
    ]


def test_a_log_that_ends_before_what_was_read_is_not_read_on() -> None:
    with pytest.raises(LogCutError, match="a/1 ends at 8, it was read to 9"):
        ranges({"a": {1: 9}}, {"a": {1: 8}})


@given(OFFSETS, OFFSETS, st.integers(1, 3_000))
def test_a_batch_takes_no_more_than_it_may_and_from_everywhere(
    start: dict[str, dict[int, int]], more: dict[str, dict[int, int]], records_max: int
) -> None:
    ends = {
        topic: {p: start.get(topic, {}).get(p, 0) + count for p, count in its.items()}
        for topic, its in more.items()
    }
    there = ranges(start, ends)
    taken = ranges(start, planned(start, ends, records_max))
    assert {one[:3] for one in taken} == {one[:3] for one in there}
    assert all(one.end <= ends[one.topic][one.partition] for one in taken)
    total = sum(one.records for one in there)
    if total <= records_max:
        assert sorted(taken) == sorted(there)
    else:  # a record from each, however many partitions there are
        assert sum(one.records for one in taken) <= records_max + len(there)


def test_a_partition_that_is_new_and_empty_joins_the_next_batch_and_makes_none() -> None:
    assert planned({"a": {0: 1}}, {"a": {0: 1, 1: 0}, "b": {0: 0}}, 100) == {"a": {0: 1}}
    assert planned({"a": {0: 1}}, {"a": {0: 2, 1: 0}, "b": {0: 0}}, 100) == {
        "a": {0: 2, 1: 0},
        "b": {0: 0},
    }


def test_what_is_not_there_any_more_stays_where_it_was() -> None:
    assert planned({"gone": {0: 7}, "a": {0: 1}}, {"a": {0: 2}}, 100) == {
        "gone": {0: 7},
        "a": {0: 2},
    }


@given(OFFSETS, st.integers(1, 8))
def test_the_tasks_of_a_batch_have_all_of_it_once_and_each_partition_in_one(
    ends: dict[str, dict[int, int]], tasks_max: int
) -> None:
    its = ranges({}, ends)
    tasks = list(shared_out(its, tasks_max))
    assert sorted(one for task in tasks for one in task) == sorted(its)
    assert len(tasks) <= tasks_max and all(tasks)


def test_few_records_are_one_task_and_many_are_shared_evenly() -> None:
    few = [LogRange("a", p, 0, 100) for p in range(4)]
    assert len(list(shared_out(few, 8))) == 1
    many = [LogRange("a", p, 0, 10_000) for p in range(4)]
    assert [len(task) for task in shared_out(many, 2)] == [2, 2]


@given(OFFSETS)
def test_the_same_offsets_are_the_same_text(offsets: dict[str, dict[int, int]]) -> None:
    turned = {t: dict(reversed(its.items())) for t, its in reversed(offsets.items())}
    assert repr(as_json(offsets)) == repr(as_json(turned))
    assert from_json(as_json(offsets)) == offsets
