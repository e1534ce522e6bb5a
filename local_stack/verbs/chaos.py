from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from local_stack.run.options import StateDir, folder_of
from local_stack.run.take_down import hold, release
from local_stack.terminal.progress import say


class ChaosPart(StrEnum):
    POSTGRES = "postgres"
    KAFKA = "kafka"
    SPARK = "spark"
    DESK = "desk"


class Direction(StrEnum):
    DOWN = "down"
    UP = "up"


def chaos(part: ChaosPart, direction: Direction, state_dir: StateDir = None) -> None:
    """Take a part down and up again.

    Example: ./headrace chaos postgres down
    """
    turn: Callable[[Path, str], None] = hold if direction is Direction.DOWN else release
    turn(folder_of(state_dir), part.value)
    if (part, direction) == (ChaosPart.SPARK, Direction.UP):
        say("spark is starting; its jobs take some seconds")
    else:
        say(f"{part.value} is {direction.value}")
