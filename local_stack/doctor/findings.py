"""What the doctor says of one thing."""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from local_stack.machine.preflight import CheckResult
from local_stack.terminal.errors import StackError


class Light(StrEnum):
    GREEN = "green"
    YELLOW = "yellow"  # works, or is going to; but look
    RED = "red"


class Finding(NamedTuple):
    name: str
    light: Light
    value: str
    note: str = ""  # where it is green; else what to do


def green(name: str, value: str, note: str = "") -> Finding:
    return Finding(name, Light.GREEN, value, note)


def yellow(name: str, value: str, fix: str) -> Finding:
    return Finding(name, Light.YELLOW, value, fix)


def red(name: str, value: str, fix: str) -> Finding:
    return Finding(name, Light.RED, value, fix)


def checked(name: str, check: Callable[[], CheckResult]) -> Finding:
    """Green with what was found, or red with the error's own words."""
    try:
        return green(name, *check())
    except StackError as error:
        return red(name, error.what, error.fix)
