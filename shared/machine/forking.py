"""What a process does first that is to fork others, with all that they need imported."""

import faulthandler
import gc
import os
import signal
from collections.abc import Iterable
from importlib import import_module

# A child that is forked beside a thread may wait for ever for a lock that this thread held: it is
# not in the child, and can never let go. No library is to start one.
_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
TELLS_WHERE_IT_IS = signal.SIGUSR2


def tell_where_asked() -> None:
    """From then on this process, and each that it forks, writes to its standard error what its
    threads are at whenever it gets `TELLS_WHERE_IT_IS`."""
    faulthandler.register(TELLS_WHERE_IT_IS)


def import_before_forks(names: Iterable[str]) -> None:
    """The collector of cycles then passes over what stands there, in each of them."""
    os.environ |= _NO_THREADS | {name: os.environ[name] for name in _NO_THREADS.keys() & os.environ}
    for name in names:
        import_module(name)
    tell_where_asked()
    gc.collect()
    gc.freeze()
