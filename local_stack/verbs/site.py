import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from local_stack.machine.paths import CHECKOUT
from local_stack.terminal.errors import StackError
from local_stack.terminal.progress import say

FOLDER = CHECKOUT / ".headrace" / "site"


def site(
    out: Annotated[
        Path | None, typer.Option(help="The folder. Default: .headrace/site in the checkout.")
    ] = None,
) -> None:
    """Build the documents as a site, to read in a browser.

    It fails on a link that leads nowhere, and on a page that is not in the navigation.

    Example: ./headrace site
    """
    folder = (out or FOLDER).absolute()
    if subprocess.run(sphinx(CHECKOUT, folder), check=False).returncode:
        raise StackError("the documents have faults", "mend what the lines above name")
    say(f"{folder / 'index.html'}")


def sphinx(source: Path, folder: Path, *options: str) -> list[str]:
    """The command that builds the pages of a folder, all of them anew."""
    strict = ["--fail-on-warning", "--fresh-env", "--write-all", "--quiet"]
    where = ["--conf-dir", str(CHECKOUT / "docs" / "site"), str(source), str(folder)]
    return [sys.executable, "-m", "sphinx", *strict, *options, *where]
