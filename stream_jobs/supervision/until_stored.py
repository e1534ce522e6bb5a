"""A batch that waits until its store takes it: the store being away is no record's fault."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from shared.errors import InterruptedByStopError
from stream_jobs.guards.breaker import Breaker


def write_until_stored(
    write_batch: Callable[[], str | None],
    trouble: Callable[[], str | None],
    report: Callable[[Breaker], None],
    sleep: Callable[[float], None],
) -> None:
    """`write_batch`: why the store did not take all. Between two tries of a batch the store alone
    is asked, which costs it next to nothing."""
    breaker = Breaker()
    while (away := write_batch()) is not None:
        while away is not None:
            breaker = breaker.failed(time.time_ns() // 1_000_000, away)
            report(breaker)
            sleep(breaker.pause_s)
            away = trouble()
        breaker = breaker.answered()
        report(breaker)


@contextmanager
def stop_as_spark_knows_it() -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        if "InterruptedException" not in str(error.java_exception):
            raise
        # Spark tells a stop from a failure by these words; in the whole trace, which is long, its
        # search for them overflows the stack.
        words = "py4j.protocol.Py4JJavaError: An error occurred while calling a batch: "
        raise InterruptedByStopError(f"{words}java.lang.InterruptedException") from None


def sleep_in_query(spark: SparkSession, duration_s: float) -> None:
    # In the query's own JVM thread: stopping the query wakes it, and Spark knows this way to end.
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    jvm.java.lang.Thread.sleep(int(duration_s * 1000))
