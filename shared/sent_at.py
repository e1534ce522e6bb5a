"""When a device says that something happened: its field `at`, else when the payload came."""

from shared.model import Arrival, Fields, Rejected
from shared.timestamps import from_rfc3339


def sent_at_ms(payload: Fields, arrival: Arrival) -> int:
    if "at" not in payload:
        return arrival.at_ms
    at = payload["at"]
    if not isinstance(at, str):
        raise Rejected("wrong_type", f"at: RFC 3339 text is expected, not {type(at).__name__}")
    try:
        return from_rfc3339(at)
    except (ValueError, OverflowError) as error:
        # its words quote the value
        raise Rejected(
            "bad_time", "at: not an RFC 3339 time with its UTC offset, as 2026-01-31T12:00:00Z is"
        ) from error
