"""Places of the log as answers and rows write them."""

from shared.events.envelope import Position


def place_of(text: str) -> Position | None:
    """None where it is none."""
    try:
        return Position.parse(text)
    except ValueError:
        return None
