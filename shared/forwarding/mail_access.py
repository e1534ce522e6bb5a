"""How the mail server is reached and who logs in there. Pure."""

import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")
_PORTS = {"smtps": 465, "smtp": 587, "smtp+plain": 25}
_WRITE = "write smtps://user@host, smtp://user@host for STARTTLS, or smtp+plain://host"


@dataclass(frozen=True)
class MailAccess:
    security: str  # smtps: TLS from the start; smtp: STARTTLS; smtp+plain: none
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    sender: str


def mail_access(url: str, password: str, sender: str) -> MailAccess:
    """ValueError where the URL is none of a mail server."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"it names no mail server: {_WRITE}")
    if parts.password is not None:
        raise ValueError("it has a password, which would be shown with it: give it by itself")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(f"it has more than a user, a host and a port: {_WRITE}")
    port = parts.port or _PORTS[parts.scheme]
    user = unquote(parts.username or "")
    if user and parts.scheme == "smtp+plain":
        raise ValueError("it would send the password unencrypted: write smtps:// or smtp://")
    if bool(user) != bool(password):
        raise ValueError("user and password go together: one of them is missing")
    return MailAccess(parts.scheme, parts.hostname, port, user, password, sender)
