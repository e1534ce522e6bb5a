"""What a run says while it goes on."""

import sys


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
