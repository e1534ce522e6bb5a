"""Other bytes for a letter: those of a file, or what a command makes of its own."""

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from local_stack.terminal.errors import StackError

if TYPE_CHECKING:
    from desk.letters.redrive_target import Rewrite

_COMMAND_MAX_S = 30.0

File = Annotated[Path | None, typer.Option(help="With the bytes of this file; -: stdin.")]
Through = Annotated[
    str | None,
    typer.Option(help="With what this shell command, on its stdin, makes of a letter's bytes."),
]


def change(file: Path | None, through: str | None) -> "Rewrite | None":
    """None: a letter's own bytes."""
    from desk.letters.redrive_target import always

    if file is not None and through is not None:
        raise StackError("--file and --through both say with which bytes", "give one of them")
    if through is not None:
        return lambda value: _made_by(through, value)
    return None if file is None else always(bytes_of(file))


def bytes_of(file: Path) -> bytes:
    """`-`: standard input's."""
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise StackError(f"{file} cannot be read: {error.strerror}", "name another file") from error


def _made_by(command: str, value: bytes) -> bytes:
    """Refused, for this letter alone, where the command does not do it."""
    from desk.letters.redrive_target import ResendError

    try:
        done = subprocess.run(
            command,
            shell=True,
            input=value,
            capture_output=True,
            timeout=_COMMAND_MAX_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ResendError(f"the command takes longer than {_COMMAND_MAX_S:.0f} s") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ResendError(f"the command ends with {done.returncode}: {said}".removesuffix(": "))
    if done.stdout == value:
        raise ResendError("the command leaves its bytes as they are")
    return done.stdout
