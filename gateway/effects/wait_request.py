"""What a POST waits for: `?wait=folded&timeout=5s`, or `Prefer: wait=5` (RFC 7240). Pure."""

import re
from typing import NamedTuple
from urllib.parse import parse_qsl

from gateway.http.problems import refused

ACCEPTED, ENRICHED, FOLDED, STORED = LEVELS = ("accepted", "enriched", "folded", "stored")
TIMEOUT_S = 5.0  # where nobody says another one
RULE = "write seconds or milliseconds, such as 5s or 500ms"
_TIME = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|s)")
_SECONDS = re.compile("[0-9]{1,6}")


class Asked(NamedTuple):
    level: str
    timeout_s: float
    applied: str = ""  # of its preferences, as the answer says it


NOTHING = Asked(ACCEPTED, 0.0)


def seconds_of(text: str) -> float | None:
    """None where it is no time."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    return float(found[1]) / (1000 if found[2] == "ms" else 1)


def asked_by_query(query: bytes, longest_s: float) -> Asked | None:
    """Problem where it cannot be meant. Other parameters are nobody's here."""
    given: dict[str, str] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name in ("wait", "timeout"):
            if name in given:
                raise refused(400, "repeated_parameter", f"send {name} once")
            given[name] = value
    level = given.get("wait")
    if level is None:
        return None
    if level not in LEVELS:
        levels = ", ".join(LEVELS[:-1])
        raise refused(400, "bad_wait", f"wait for {levels} or {LEVELS[-1]}: ?wait={FOLDED}")
    text = given.get("timeout")
    if text is None:
        return Asked(level, min(TIMEOUT_S, longest_s))
    timeout_s = seconds_of(text)
    if timeout_s is None:
        raise refused(400, "bad_timeout", f"{RULE}: ?wait={level}&timeout=5s")
    return Asked(level, min(timeout_s, longest_s))


def with_preferences(asked: Asked | None, prefer: bytes, longest_s: float) -> Asked | None:
    """A preference that cannot be read is none: it is no order."""
    found: dict[str, str] = {}
    for one in prefer.decode("latin-1").split(","):
        # by hand: this is read of every POST, and a pattern may take long over what nobody means
        name, _, value = one.partition(";")[0].partition("=")
        found.setdefault(name.strip().lower(), value.strip().strip('"').strip())
    wait = found.get("wait", "")
    if _SECONDS.fullmatch(wait):
        level = FOLDED if asked is None else asked.level
        timeout_s = min(float(wait), longest_s)
        return Asked(level, timeout_s, f"wait={timeout_s:.0f}")
    if "respond-async" in found:
        return NOTHING._replace(applied="respond-async")
    return asked
