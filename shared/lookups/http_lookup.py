"""A service that enrichments ask by a key."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

KEY = "{key}"
KEY_CHARS_MAX = 500
_DAY_S = 86_400.0
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True)
class HttpLookup:
    """`GET url` answers with JSON, or with 404: nothing is known of the key. A row of the flow, in
    the `lookups` of the endpoints whose enrichment asks it: `master.answer(name, key)`.

    Every number is that of one worker process, which has its own answers and its own breaker."""

    name: str
    url: str  # with {key} in its path or query. The key is percent-encoded there
    answer: Any = None  # the contract of what comes back
    # such as a token; read it from the environment, not from the file
    headers: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    within_s: float = 2.0  # a request that takes longer has failed
    at_once_max: int = 8  # requests
    answer_bytes_max: int = 64 * 1024
    # how long an answer is used again, and how long "nothing is known of it"
    fresh_for_s: float = 60.0
    absent_for_s: float = 10.0
    kept_bytes_max: int = 16 * 1024 * 1024  # of all answers; the oldest ones go
    # the breaker: after so many failures in a row nothing is asked for that long, then one request.
    # Where as many keys have failed, at least two, the service is away
    opens_after: int = 5
    rests_s: float = 5.0

    def url_of(self, key: str) -> str:
        """ValueError for a key that can be no part of a URL's path: it would be another path."""
        if key in ("", ".", "..") or len(key) > KEY_CHARS_MAX:
            what = f"has {len(key)} characters" if len(key) > KEY_CHARS_MAX else f"is {key!r}"
            raise ValueError(
                f"the key {what}: 1 to {KEY_CHARS_MAX} characters, neither '.' nor '..'"
            )
        return self.url.replace(KEY, quote(key, safe=""))

    def why_not(self) -> str | None:
        """What of it cannot be."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return f"url is {self.url!r}: write http://host/path/{KEY}, or https"
        if self.url.count(KEY) != 1 or KEY in parts.netloc or KEY in parts.fragment:
            return f"url is {self.url!r}: {KEY} stands in it once, in its path or query"
        if parts.username is not None:
            return "url has a password in it: give it in `headers`, from the environment"
        if not 0 < self.within_s <= 60 or not 0 < self.rests_s <= _DAY_S:
            return "within_s must be above 0, at most 60, and rests_s above 0, at most a day"
        if not (0 <= self.absent_for_s <= self.fresh_for_s <= _DAY_S):
            return "absent_for_s must be at least 0, at most fresh_for_s, and that at most a day"
        if min(self.at_once_max, self.answer_bytes_max, self.opens_after) < 1:
            return "at_once_max, answer_bytes_max and opens_after must be at least 1"
        if self.kept_bytes_max < self.answer_bytes_max:
            return "kept_bytes_max must be at least answer_bytes_max"
        return self._why_no_headers()

    def _why_no_headers(self) -> str | None:
        """Shows no value, and no name that may be one."""
        for name, value in self.headers.items():
            if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
                return "a name in `headers` is none: use letters, digits and -"
            if not isinstance(value, str) or not _is_header_value(value):
                return (
                    f"the value of {name!r} in `headers` must be text of printable ASCII without "
                    "spaces around it; a secret that was read from a file may end in a line break"
                )
        return None


def _is_header_value(value: str) -> bool:
    return value.isascii() and value.isprintable() and value == value.strip()
