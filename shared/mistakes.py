"""A mistake that pydantic found, in words for whoever made it."""

from pydantic_core import ErrorDetails


def words_of(wrong: ErrorDetails) -> str:
    """Without the prefix by which pydantic says what a validator of ours has raised."""
    return wrong["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
