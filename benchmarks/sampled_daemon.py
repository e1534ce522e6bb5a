"""Spark's daemon of Python workers, each of which notes every 10 ms of its CPU what it is at."""

import os
import signal
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from stream_jobs.supervision.worker_daemon import main

FOLDER = "HEADRACE_SAMPLES"  # one file a worker: second, number of samples, frames from within
_EVERY_S = 0.01
_DEPTH = 40


class _Sampler:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._second = 0
        self._seen: Counter[str] = Counter()
        signal.signal(signal.SIGPROF, self._note)
        signal.setitimer(signal.ITIMER_PROF, _EVERY_S, _EVERY_S)

    def _note(self, _number: int, frame: FrameType | None) -> None:
        now = int(time.time())
        if now != self._second:
            with self._file.open("a") as file:
                file.writelines(f"{self._second} {n} {told}\n" for told, n in self._seen.items())
            self._second = now
            self._seen.clear()
        frames = []
        while frame is not None and len(frames) < _DEPTH:
            code = frame.f_code
            frames.append(f"{'/'.join(Path(code.co_filename).parts[-2:])}:{code.co_name}")
            frame = frame.f_back
        self._seen[" ".join(frames)] += 1


def _begin() -> None:
    _Sampler(Path(os.environ[FOLDER]) / f"{os.getpid()}.samples")


if __name__ == "__main__":
    os.register_at_fork(after_in_child=_begin)
    main()
