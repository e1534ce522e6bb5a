"""What fold's driver does beside its query: counts what was late, and folds some entities anew."""

from functools import partial

from clients.kafka.records import Offsets
from shared.flow_table import Flow
from shared.settings import JobSettings
from stream_jobs.fold import refolder
from stream_jobs.fold.clock_counts import ClockCounts
from stream_jobs.supervision.driver_task import OwnThread


class FoldTask(ClockCounts):
    def __init__(self, settings: JobSettings, flow: Flow) -> None:
        super().__init__()
        self._refolder = OwnThread(partial(refolder.run, settings, flow))

    def start(self) -> Offsets | None:
        self._refolder.start()
        return None

    def stop(self) -> bool:
        return self._refolder.stop()
