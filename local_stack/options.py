"""Options that many verbs share."""

from pathlib import Path
from typing import Annotated

import typer

StateDir = Annotated[
    Path | None,
    typer.Option(
        envvar="HEADRACE_STATE_DIR",
        help="Where topics, database and logs live. Default: .headrace/state in the checkout.",
    ),
]
