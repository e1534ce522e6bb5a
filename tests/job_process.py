"""A job as an operator runs it, in a process that a test may kill."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from shared.settings import JobSettings


class JobProcess:
    def __init__(
        self, job: str, settings: JobSettings, log: Path, variables: dict[str, str]
    ) -> None:
        self._command = [sys.executable, "-m", "stream_jobs", job]
        self._log = log
        self._environment = {
            **os.environ,
            "HEADRACE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
            "HEADRACE_STATE_DIR": str(settings.state_dir),
            "HEADRACE_FLOW": settings.flow,
            **variables,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert self._process is None, "it runs"
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int | None:
        """Its process group has the same number."""
        return self._process and self._process.pid

    def kill(self) -> None:
        """With -9, its JVM and Python workers too. It must have been alive until now."""
        assert self._process is not None
        ended = self._process.poll()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert ended is None, self._log.read_text()[-5000:]
        self._process = None

    def __enter__(self) -> "JobProcess":
        self.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._process is None:
            return
        if error is None:
            self.kill()
        else:  # that the job has ended, too, would only hide it
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
