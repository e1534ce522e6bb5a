"""Options that many verbs share."""

import re
from pathlib import Path
from typing import Annotated

import typer

from local_stack.machine.paths import state_dir as default_state_dir
from local_stack.terminal.errors import StackError
from shared.timestamps import from_rfc3339

_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

StateDir = Annotated[
    Path | None,
    typer.Option(
        envvar="HEADRACE_STATE_DIR",
        help="Where topics, database and logs live. Default: .headrace/state in the checkout.",
    ),
]


def folder_of(chosen: Path | None) -> Path:
    return (chosen or default_state_dir()).absolute()


def since_ms(text: str, now_ms: int, option: str = "--since") -> int:
    """`15m` ago, or an RFC 3339 time."""
    try:
        if ago := re.fullmatch(r"(\d{1,6})([smhd])", text):
            return now_ms - int(ago[1]) * _UNIT_S[ago[2]] * 1000
        return from_rfc3339(text)
    except (ValueError, OverflowError) as error:
        raise StackError(
            f"{option} {text}: {error}", "write 90s, 15m, 2h, 1d or 2026-11-21T12:00:00Z"
        ) from error
