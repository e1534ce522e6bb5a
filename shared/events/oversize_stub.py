"""A record that is too large to be parked, or to wait, with why it did not pass: in its place goes
a stub, which says where it stands. Anyone may write to an ingest topic as much as it takes, and
what the topic of dead letters refused would stop the job that writes it. Pure."""

from collections.abc import Sequence
from hashlib import sha256

from shared.events import envelope
from shared.events.envelope import Header, Position
from shared.topic_names import LETTER_BYTES_MAX

_HEADER_OVERHEAD_BYTES = 16
_KEY_BYTES_MAX = 4096
_HEADER_BYTES_MAX = 4096
_ATTEMPTS_BYTES_MAX = 256 * 1024
_DETAIL_CHARS_MAX = 2000
# of a record's headers, what says whose it is, why it is here, and how often it was tried
_KEPT = (
    envelope.ID,
    envelope.ORIGIN,
    envelope.ARRIVED,
    envelope.ATTEMPT,
    envelope.REVISION,
    envelope.READ_AT,
    envelope.STAGE,
    envelope.REASON,
    envelope.SOFTWARE,
    envelope.SUBJECT,
    envelope.TENANT,
    envelope.TRACE_PARENT,
    envelope.TRIES,
    envelope.HOOK,
)

Fields = tuple[bytes | None, bytes | None, list[Header]]


def fitted(
    place: Position, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> Fields:
    """Key, value and headers: as they are, or of the stub. `place`: where the whole record is."""
    size = _bytes(key, value, headers)
    if size <= LETTER_BYTES_MAX:
        return key, value, list(headers)
    digest = sha256(value or b"").hexdigest()
    why = (
        f"the record has {size} bytes with its headers and why it is here, {LETTER_BYTES_MAX} may "
        f"be: it stands at {place}, as long as that topic keeps it; its value has "
        f"{len(value or b'')} bytes and sha256 {digest}"
    )
    said = (envelope.text(headers, envelope.DETAIL) or "")[:_DETAIL_CHARS_MAX]
    kept = [
        (name, told)
        for name in _KEPT
        if (told := envelope.find(headers, name)) is not None and len(told) <= _HEADER_BYTES_MAX
    ]
    if envelope.find(kept, envelope.ID) is None:
        kept.append((envelope.ID, str(place).encode()))
    if (attempts := envelope.find(headers, envelope.ATTEMPTS)) and len(
        attempts
    ) < _ATTEMPTS_BYTES_MAX:
        kept.append((envelope.ATTEMPTS, attempts))
    detail = f"{said}; {why}" if said else why
    kept += [(envelope.DETAIL, detail.encode()), (envelope.STUB, why.encode())]
    return key if key is None or len(key) <= _KEY_BYTES_MAX else None, b"", kept


def _bytes(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """In UTF-8 a character may take four."""
    own = sum(4 * len(name) + len(told) + _HEADER_OVERHEAD_BYTES for name, told in headers)
    return len(key or b"") + len(value or b"") + own
