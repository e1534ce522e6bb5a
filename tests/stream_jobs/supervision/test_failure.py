import pytest

from stream_jobs.supervision.failure import judge


@pytest.mark.parametrize(
    "condition",
    [
        "CONCURRENT_STREAM_LOG_UPDATE",
        "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
        "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    ],
)
def test_damage_stops_the_job_by_name(condition: str) -> None:
    failure = judge(f"[{condition}] something about it SQLSTATE: 58030")
    assert (failure.stops, failure.reason) == (True, condition)


def test_what_another_driver_wrote_into_a_stored_checkpoint_is_read_again() -> None:
    """The claim says which of both goes on."""
    message = "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. SQLSTATE: 40000"
    failure = judge(message, is_stored=True)
    assert (failure.stops, failure.waits) == (False, False)
    assert failure.reason == "CONCURRENT_STREAM_LOG_UPDATE"


def test_a_damaged_file_of_the_state_stops_the_job_and_a_full_disk_does_not() -> None:
    message = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state."
    damaged = "Caused by: org.apache.hadoop.fs.ChecksumException: Checksum error: file:/a/1.zip"
    failure = judge(message, causes=damaged)
    assert (failure.stops, failure.reason) == (True, "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED")
    assert not judge(
        message, causes="Caused by: java.io.IOException: No space left on device"
    ).stops


@pytest.mark.parametrize("where", ["message", "causes"])
def test_a_damaged_file_of_a_checkpoint_stops_the_job_and_is_named(where: str) -> None:
    said = (
        "An error occurred while calling o6540.start.\n: org.apache.hadoop.fs.ChecksumException: "
        "Checksum error: file:/a/checkpoints/aggregate/metadata at 0 exp: 785701477 got: 967822886"
    )
    failure = judge(**({"message": ""} | {where: said}))
    assert failure.stops
    assert failure.reason == (
        "CHECKPOINT_DAMAGED: /a/checkpoints/aggregate/metadata is not what was written"
    )


def test_what_will_come_back_is_waited_for() -> None:
    message = (
        "[PYTHON_EXCEPTION] An exception was thrown:\n"
        "stream_jobs.enrich.master_data_view.StaleMasterDataError: master data of 'device' is old\n"
    )
    failure = judge(message)
    assert (failure.stops, failure.waits) == (False, True)
    assert failure.reason == "master data of 'device' is old"


@pytest.mark.parametrize(
    ("name", "store_away"),
    [("StoreAwayError", True), ("StoreSlowError", True), ("LeaseEndedError", False)],
)
def test_a_store_that_is_away_is_told_from_other_waits(name: str, store_away: bool) -> None:
    failure = judge(f"[PYTHON_EXCEPTION] thrown:\nstream_jobs.x.{name}: in words\n")
    assert (failure.waits, failure.store_away, failure.reason) == (True, store_away, "in words")


def test_another_copy_of_the_job_is_told_from_damage() -> None:
    failure = judge("[X] thrown:\nstream_jobs.one_copy.AnotherCopyError: ANOTHER_COPY: persist\n")
    assert (failure.stops, failure.other_copy) == (True, True)
    assert not judge("[CONCURRENT_STREAM_LOG_UPDATE] gone").other_copy


def test_anything_else_is_tried_again() -> None:
    failure = judge("java.util.concurrent.TimeoutException: no answer\n\tat somewhere")
    assert (failure.stops, failure.waits) == (False, False)
    assert failure.reason == "java.util.concurrent.TimeoutException: no answer"


def test_what_python_code_raised_is_told_by_its_last_words() -> None:
    message = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "aggregation.py", line 5, in _sum
    fields = reduce(aggregate.add, fields)
TypeError: unsupported operand type(s) for +: 'int' and 'str'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "worker.py", line 1, in main
stream_jobs.aggregate.sums.AddFailedError: aggregate area cannot be added up: TypeError: x; mend its code

\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:1)
Caused by: java.lang.RuntimeException: no
"""  # noqa: E501 - as Spark writes it
    assert judge(message).reason == (
        "AddFailedError: aggregate area cannot be added up: TypeError: x; mend its code"
    )
