"""What an operator has to be for a request: the table of docs/security.md. Pure."""

import re

from gateway.auth.caller import May

SAFE = ("GET", "HEAD")
# what changes nothing, or nothing of others
_LOOKED = re.compile(r"(/api)?/letters/[^/]+/try$|/api/try/|/logout$")
# the rest is for who may administer: who comes in, and which webhooks there are with which secrets
_OPERATED = re.compile(
    r"(/api)?/(letters|redrives?|discards?|waiting|jobs|master)(/|$)|/webhooks/|"
    r"/api/hooks/[^/]+/(pause|resume|test|replay)$"
)


def needed(method: str, path: str) -> May:
    if method in SAFE or _LOOKED.match(path):
        return "look"
    return "operate" if _OPERATED.match(path) else "administer"


def for_who_may(may: May) -> str | None:
    """A class of what is for them alone: style.css hides it from others."""
    return None if may == "look" else f"for-{may}"
