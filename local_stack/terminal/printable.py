"""Bytes and cells that anyone may have written, as text that does no harm to a terminal."""

import json


def printable(text: str) -> str:
    """What cannot be shown stands escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def as_text(value: bytes | None) -> str:
    """JSON as it is, also over several lines; other bytes in one line, escaped where needed."""
    if value is None:
        return "(null)"
    if not value:
        return "(empty)"
    text = value.decode(errors="backslashreplace")
    if not _is_json(value):
        return printable(text)
    return "\n".join(printable(line) for line in text.expandtabs().splitlines())


def _is_json(value: bytes) -> bool:
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return False
    return True
