"""A consumer in a process that a test may kill: it writes down what it handled."""

import json
import os
import sys
import time
from typing import Any

from headrace_consumer import Consumer, Event, Refused, RepeatFilter, Retry


def main(bootstrap: str, topic: str, deliver: str, file: str, seen: str) -> None:
    out = os.open(file, os.O_APPEND | os.O_CREAT | os.O_WRONLY)

    def handle(event: Event[dict[str, Any]]) -> None:
        what = event.data.get("what")
        if what == "refuse":
            raise Refused("as it says")
        if what == "fail":
            raise RuntimeError("as it says")
        line = [event.entity_id, event.data["n"], event.id, round(time.time(), 3)]
        os.write(out, f"{json.dumps(line)}\n".encode())
        time.sleep(0.0005)

    Consumer(
        handle,
        topics=[topic],
        group="tests-consumer",
        bootstrap=bootstrap,
        deliver=deliver,  # type: ignore[arg-type]
        repeats=RepeatFilter(seen if seen != "-" else None),
        retry=Retry(3, 0.5) if deliver == "at_least_once" else None,
        kafka={"session.timeout.ms": 6000, "heartbeat.interval.ms": 500},
    ).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
