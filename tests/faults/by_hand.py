"""How a rig is run by hand, and what it says while it goes on."""

import argparse
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def by_hand(
    what: str | None, run: Callable[..., int], options: Mapping[str, tuple[float, str | None]]
) -> int:
    """`options`: parameters of `run`, beside its folder and its seed: what they are by default."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    for name, (default, text) in options.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=type(default), default=default, help=text)
    chosen: dict[str, Any] = vars(parser.parse_args())
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder), **chosen)
