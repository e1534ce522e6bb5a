"""A letter for whoever wants to see it: its bytes as text, JSON and hex, its headers, its attempts.
Pure."""

from base64 import b64encode
from typing import Any

import orjson

from clients.kafka.records import Record, plain
from desk.letters.store import IndexedLetter, place_of
from shared.timestamps import to_rfc3339

_HEX_BYTES_MAX = 4096
_HEX_ROW = 16


def document(known: IndexedLetter, record: Record | None) -> dict[str, Any]:
    """`record`: None where its bytes are no longer in their topic."""
    row = {name: value for name, value in known.row.items()
           if name not in ("topic", "partition", "offset", "parked_in")}  # fmt: skip
    return {
        **row,
        "place": str(place_of(known.row)),
        "attempts": [
            {**attempt._asdict(), "at": to_rfc3339(attempt.at_ms)} for attempt in known.attempts
        ],
        "key": None if record is None else plain(record.key),
        "headers": [] if record is None else [[name, plain(v)] for name, v in record.headers],
        "payload_bytes": None if record is None else bytes_shown(record.value),
    }


def bytes_shown(value: bytes | None) -> dict[str, Any]:
    """`text` and `json` where the bytes are such."""
    value = value or b""
    return {
        "base64": b64encode(value).decode(),
        "text": _text(value),
        "json": _json(value),
        "hex": hex_rows(value[:_HEX_BYTES_MAX]),
        "hex_is_cut": len(value) > _HEX_BYTES_MAX,
    }


def hex_rows(value: bytes) -> list[str]:
    rows = [value[at : at + _HEX_ROW] for at in range(0, len(value), _HEX_ROW)]
    return [
        f"{number * _HEX_ROW:08x}  {row.hex(' '):<{_HEX_ROW * 3}} {_ascii(row)}"
        for number, row in enumerate(rows)
    ]


def _ascii(row: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _json(value: bytes) -> str | None:
    """Indented."""
    try:
        return orjson.dumps(orjson.loads(value), option=orjson.OPT_INDENT_2).decode()
    except (ValueError, TypeError):  # it reads what it cannot write: a number beyond 64 bits
        return None
