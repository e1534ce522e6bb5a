"""A stack that loses its processes while devices post to it."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from local_stack.run.stack import Stack
from tests.end_to_end.launcher import descendants


def post_until_accepted(
    stack: Stack, path: str, body: bytes, key: str, headers: dict[str, str] | None = None
) -> str:
    """Under one key, until it has its receipt: so the next one of its device is accepted after it.
    Returns its id."""
    sent = {"Idempotency-Key": key, **(headers or {})}
    for _ in range(600):
        with suppress(httpx.TransportError):
            answer = httpx.post(
                f"{stack.gateway_url}{path}", content=body, headers=sent, timeout=10
            )
            if answer.status_code == 202:
                return str(answer.json()["id"])
            assert answer.status_code >= 500, answer.text
        time.sleep(0.2)
    raise AssertionError("not accepted within two minutes")


def kill(stack: Stack, name: str) -> None:
    """The process and all that it has started."""
    pid = stack.pid(name)
    for one in [*descendants(pid), pid] if pid is not None else ():
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


@contextmanager
def killing(stack: Stack, names: Sequence[str], every_s: float) -> Iterator[None]:
    """One after the other, for as long as there is load."""
    over = threading.Event()

    def kill_them() -> None:
        for name in names:
            if over.wait(every_s):
                return
            kill(stack, name)

    killer = threading.Thread(target=kill_them)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()


def shown(stack: Stack, entity: str, its: str) -> Any:
    """None where there is no answer now."""
    try:
        answer = httpx.get(f"{stack.gateway_url}/state/{entity}/{its}", timeout=10)
    except httpx.TransportError:
        return None
    return answer.json().get("state") if answer.status_code == 200 else None


def wait_for_states(
    stack: Stack, expected: dict[tuple[str, str], Any], within_s: float = 240
) -> None:
    """By entity and id."""
    left, deadline = dict(expected), time.monotonic() + within_s
    while True:
        found = {key: shown(stack, *key) for key in left}
        left = {key: state for key, state in left.items() if found[key] != state}
        if not left:
            return
        if time.monotonic() > deadline:
            key = next(iter(left))
            raise AssertionError(f"{len(left)} wrong, {key}: {found[key]}, not {left[key]}")
        time.sleep(0.5)
