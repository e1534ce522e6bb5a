"""The demo's own webhook, as long as the demo runs."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from desk.hooks.service import HookDesk, NoHookError
from local_stack.demo.alarm_server import ALARM
from local_stack.terminal.errors import StackError
from shared.timestamps import now_ms

NAME = "demo-alarms"
_BY = "the demo"
_REACHED_WITHIN_S = 45.0
_LOOK_EVERY_S = 0.5
_LOG_MAX = 1000


@contextmanager
def own_hook(
    hooks: HookDesk, url: str, secret: str, has_come: Callable[[str], bool]
) -> Iterator[None]:
    """It is there, and forward has sent it a test. One that a killed demo has left is replaced."""
    _delete(hooks)
    began_ms = now_ms()
    hooks.add(NAME, {"url": url, "types": (ALARM,)}, secret, by=_BY)
    try:
        _wait(hooks, began_ms, has_come)
        yield
    finally:
        _delete(hooks)


def _delete(hooks: HookDesk) -> None:
    with suppress(NoHookError):
        hooks.delete(NAME, by=_BY)


def _wait(hooks: HookDesk, began_ms: int, has_come: Callable[[str], bool]) -> None:
    test_id = hooks.send_test(NAME, by=_BY)
    deadline_s = time.monotonic() + _REACHED_WITHIN_S
    while not has_come(test_id):
        for tried in hooks.log(NAME, began_ms, _LOG_MAX):
            if tried["event_id"] == test_id and tried["said"].startswith("not sent: "):
                raise StackError(
                    "webhooks may not go to this machine: forward sends only to the open internet",
                    "allow it, for development: "
                    "HEADRACE_HOOKS_HOSTS_ALLOWED=127.0.0.1 ./headrace up",
                )
        if time.monotonic() > deadline_s:
            raise StackError(
                f"forward has sent the demo's webhook nothing for {_REACHED_WITHIN_S:.0f} s",
                f"see ./headrace status, and ./headrace hooks log {NAME}",
            )
        time.sleep(_LOOK_EVERY_S)
