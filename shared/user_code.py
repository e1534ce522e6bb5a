"""What went wrong in a domain's own code, told to who wrote it."""

from collections.abc import Callable
from pathlib import Path
from traceback import walk_tb
from typing import Any


def describe_error(error: Exception, function: Callable[..., Any]) -> str:
    """With the last line that it came by in the file of the function that was called."""
    try:
        said = f"{type(error).__name__}: {error}"
    except Exception:  # its text is the domain's own code, too
        said = type(error).__name__
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    lines = [n for frame, n in walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    return f"{said} ({Path(file).name}, line {lines[-1]})" if file and lines else said
