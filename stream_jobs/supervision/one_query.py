"""A job's query: at most one lives, however long its end takes."""

import logging

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

_log = logging.getLogger(__name__)


class OneQuery:
    def __init__(self, job: str) -> None:
        self._job = job
        self.running: StreamingQuery | None = None
        self.is_ending = False  # it was to end and has not yet

    def begin(self, writer: DataStreamWriter) -> None:
        self.running = writer.start()

    def end(self) -> bool:
        """Whether none lives any more. Spark waits for a batch so long, and calls its query ended
        also where the batch goes on: then it is to be asked again."""
        if self.running is not None:
            self.is_ending = True
            try:
                self.running.stop()
            except (Py4JError, PySparkException) as error:
                _log.warning("the query of %s has not ended yet: %s", self._job, error)
                return False
        self.running, self.is_ending = None, False
        return True
