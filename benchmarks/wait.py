"""POSTs with `?wait=folded`, each read back at once, while gateway and jobs are killed.

    python -m benchmarks.wait --posts 100000 --clients 800

A whole stack. Each client has a device of its own: it posts with a key until it has an answer, and
asks `/state` of the same gateway for it: a version below the one that it was told, or a count that
lacks one of its posts, is a stale read. Where the answer is no more than "accepted" it asks with
`?after=`. `--other` starts a second gateway, which is asked with `If-Version-At-Least`, too.
"""

import argparse
import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from local_stack.machine.ports import free_port
from local_stack.machine.processes import tied_to_this_process
from local_stack.run.stack import Stack
from tests.killed import kill
from tests.waiting_load import post_and_read

_KILLED = ("gateway", "spark")


@contextmanager
def other_gateway(stack: Stack, folder: Path) -> Iterator[str]:
    """Of another node: with a view of its own."""
    port = free_port()
    environment = {
        **os.environ,
        "HEADRACE_KAFKA_BOOTSTRAP": stack.kafka_bootstrap,
        "HEADRACE_POSTGRES_URL": stack.postgres_url,
        "HEADRACE_STATE_DIR": str(folder),
        "HEADRACE_GATEWAY_PORT": str(port),
    }
    with (folder / "gateway.log").open("wb") as log:
        command = tied_to_this_process([sys.executable, "-m", "gateway"])
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--posts", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=3600, help="at the most")
    parser.add_argument("--clients", type=int, default=200, help="at most 999")
    # more often, and who starts them again waits longer and longer
    parser.add_argument("--kill-every", type=float, default=40, help="0: nothing is killed")
    parser.add_argument("--other", action="store_true", help="a second gateway")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-wait-") as name:
        folder = Path(name)
        (folder / "other").mkdir()
        with Stack(folder / "stack", random_ports=True) as stack:
            second = other_gateway(stack, folder / "other") if options.other else nullcontext()
            with second as other_url:
                return run(stack, options, other_url)


def run(stack: Stack, options: argparse.Namespace, other_url: str | None) -> int:
    over, kills = threading.Event(), 0

    def kill_them() -> None:
        nonlocal kills
        for one in itertools.cycle(_KILLED):
            if over.wait(options.kill_every):
                return
            kill(stack, one)
            kills += 1

    killer = threading.Thread(target=kill_them, daemon=True)
    if options.kill_every:
        killer.start()
    began_s = time.monotonic()
    # those of Celsius: each tenth is in Fahrenheit
    devices = [f"device-{n:04}" for n in range(1, 1000) if n % 10][: options.clients]
    found = asyncio.run(
        post_and_read(
            devices,
            lambda: stack.gateway_url,
            lambda count: count < options.posts and time.monotonic() - began_s < options.seconds,
            (lambda: other_url) if other_url else None,
        )
    )
    over.set()
    took_s = time.monotonic() - began_s
    if options.kill_every:
        killer.join()
    print(f"{took_s:,.0f} s, {kills} kills: {found.line()}")
    print(f"{len(found.stale)} stale reads")
    print(*found.stale[:20], sep="\n")
    return 1 if found.stale else 0


if __name__ == "__main__":
    sys.exit(main())
