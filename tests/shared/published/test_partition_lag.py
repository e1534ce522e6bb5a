import orjson

from shared.published.partition_lag import PARTITIONS_MAX, PartitionLag, read, told


def test_what_a_job_tells_of_its_partitions_is_read_as_it_was() -> None:
    lags = {("a", 0): PartitionLag(7, 2.5), ("a", 12): PartitionLag(3, None)}
    assert told(lags) == {"a": {"0": [7, 2.5], "12": [3, None]}}
    assert read(orjson.loads(orjson.dumps(told(lags)))) == {
        ("a", "0"): (7, 2.5),
        ("a", "12"): (3, None),
    }


def test_of_very_many_partitions_it_tells_those_that_are_furthest_behind() -> None:
    lags = {("a", at): PartitionLag(1, float(at)) for at in range(PARTITIONS_MAX + 10)}
    (partitions,) = told(lags).values()
    assert {int(at) for at in partitions} == {*range(10, PARTITIONS_MAX + 10)}


def test_what_is_no_lag_is_left_out() -> None:
    for said in (None, [], {"a": 1}, {"a": {"0": [1]}}, {"a": {"0": ["x", 1]}}, {"a": {"0": None}}):
        assert read(said) == {}
