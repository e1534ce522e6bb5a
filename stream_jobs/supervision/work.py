"""What a job has under way: its query, of which at most one lives, and its driver's task beside it.
An end may take long, and is asked for again until it has come."""

import logging

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from stream_jobs.guards.single_copy import OneCopy
from stream_jobs.supervision.driver_task import DriverTask

_log = logging.getLogger(__name__)


class Work:
    def __init__(self, job: str, copy: OneCopy, driver_task: DriverTask) -> None:
        self._job, self._copy, self._driver_task = job, copy, driver_task
        self.query: StreamingQuery | None = None
        self._query_is_to_end = self._all_is_to_end = False

    def begin(self, writer: DataStreamWriter) -> None:
        self.query = writer.start()

    def has_ended(self) -> bool:
        """What was to end; asked anew where it had not."""
        if self._all_is_to_end:
            return self.end()
        return not self._query_is_to_end or self.end_query()

    def end(self) -> bool:
        """Whether nothing is under way any more, beside the query either."""
        self._all_is_to_end = not (self.end_query() and self._driver_task.stop())
        return not self._all_is_to_end

    def end_query(self) -> bool:
        """Whether none lives any more. Spark waits for a batch so long, and calls its query ended
        also where the batch goes on."""
        self._copy.end_lease()
        if self.query is not None:
            self._query_is_to_end = True
            try:
                self.query.stop()
            except (Py4JError, PySparkException) as error:
                _log.warning("the query of %s has not ended yet: %s", self._job, error)
                return False
        self.query, self._query_is_to_end = None, False
        return True
