"""`python -m stream_jobs JOB`, which also writes down Spark's own word on each batch."""

import json
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from stream_jobs.__main__ import main
from stream_jobs.supervision.progress import records_of

_EVERY_S = 0.1
RECORDS = "records"  # Spark counts rows, and sees none of most


def _note_progress(file: Path) -> None:
    noted: dict[str, int] = {}
    while True:
        time.sleep(_EVERY_S)
        with suppress(Exception):  # there is no session yet, or no longer
            session: Any = SparkSession._instantiatedSession
            for query in session.streams.active:
                last = query.lastProgress
                if last is None or last["batchId"] <= noted.get(query.name, -1):
                    continue  # the others are many
                for progress in query.recentProgress:
                    records = records_of(progress)
                    if records and progress["batchId"] > noted.get(query.name, -1):
                        noted[query.name] = progress["batchId"]
                        with file.open("a") as lines:
                            lines.write(json.dumps({**json.loads(progress.json), RECORDS: records}))
                            lines.write("\n")


if __name__ == "__main__":
    path, *jobs = sys.argv[1:]
    threading.Thread(target=_note_progress, args=(Path(path),), daemon=True).start()
    sys.exit(main(jobs))
