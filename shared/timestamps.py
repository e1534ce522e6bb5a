"""RFC 3339 text and epoch milliseconds, one into the other."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_rfc3339(time_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_rfc3339(text: str) -> int:
    """Epoch milliseconds; ValueError where the text is no time or has no UTC offset."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("the UTC offset is missing (write Z or +01:00)")
    return (moment - _EPOCH) // _MILLISECOND
