"""Spark's daemon that forks its Python workers, after what they all need is imported.

The collector of cycles passes over what stands there by then: each task ends with a full
collection, which took 85 ms for the modules alone. What a task makes has few cycles, and is looked
at seldom: that was almost half of the cost of folding.

A worker ends with the daemon. One that asks Kafka for something would go on for a minute after the
daemon was killed, beside those of the next one.
"""

import gc
import os
from functools import partial
from importlib import import_module

from shared.machine.forking import import_before_forks
from shared.machine.parent_process import die_with_parent

_NEEDED = (
    *("numpy", "pandas", "pyarrow", "pyarrow.compute"),
    *("pyspark.worker", "pyspark.testing.utils", "pyspark.sql.streaming.proto.StateMessage_pb2"),
    "stream_jobs.jobs",
)
# a young object is looked at after so many new ones; an older one after so many such looks
_SELDOM = (50_000, 20, 100)


def main() -> None:
    import_before_forks(_NEEDED)
    gc.set_threshold(*_SELDOM)
    os.register_at_fork(after_in_child=partial(die_with_parent, os.getpid()))
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
