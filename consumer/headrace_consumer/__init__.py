"""Reads what Headrace writes: typed events, at least once or at most once, in the order of each
key. What cannot be done goes to dead letters of its own, and repeats are hidden by their id."""

from .consumer import AT_LEAST_ONCE, AT_MOST_ONCE, Consumer
from .driver import ConsumerError
from .events import Event, Position, Unreadable
from .repeats import RepeatFilter
from .retry import Refused, Retry

__all__ = [
    "AT_LEAST_ONCE",
    "AT_MOST_ONCE",
    "Consumer",
    "ConsumerError",
    "Event",
    "Position",
    "Refused",
    "RepeatFilter",
    "Retry",
    "Unreadable",
]
