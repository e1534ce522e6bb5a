"""Options that many verbs share."""

from pathlib import Path
from typing import Annotated

import typer

from local_stack.machine.paths import state_dir as default_state_dir

StateDir = Annotated[
    Path | None,
    typer.Option(
        envvar="HEADRACE_STATE_DIR",
        help="Where topics, database and logs live. Default: .headrace/state in the checkout.",
    ),
]


def folder_of(chosen: Path | None) -> Path:
    return (chosen or default_state_dir()).absolute()
