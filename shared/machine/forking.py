"""What a process does first that is to fork others, with all that they need imported."""

import faulthandler
import gc
import os
import signal
from collections.abc import Iterable
from importlib import import_module

# A child that is forked beside a thread may wait for ever for a lock that this thread held: the
# thread is not in the child and cannot let go. So no library is to start one.
_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
TELLS_WHERE_IT_IS = signal.SIGUSR2


def import_before_forks(names: Iterable[str]) -> None:
    """The collector of cycles then passes over what stands there, in each of them. Each writes to
    its standard error what it is at when it gets `TELLS_WHERE_IT_IS`, which is safe while it
    sleeps: one that runs may end of it."""
    for variable, value in _NO_THREADS.items():
        os.environ.setdefault(variable, value)
    for name in names:
        import_module(name)
    faulthandler.register(TELLS_WHERE_IT_IS)
    gc.collect()
    gc.freeze()
