"""Ctrl-C where its exception would get lost."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """At once, as any program by default. For imports: Python and some extensions swallow an
    exception that comes in the middle of theirs, one in a hundred, or make another one of it."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
