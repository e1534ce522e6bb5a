"""What JSON allows and PostgreSQL's text does not."""

import re

# an escaped backslash before u0000 is a backslash and five characters, and harmless
_ESCAPED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def holds_nul(value: bytes) -> bool:
    return b"\\u0000" in value and _ESCAPED_NUL.search(value) is not None
