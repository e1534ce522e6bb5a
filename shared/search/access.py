"""How the search server is reached and who logs in there. Pure."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

_WRITE = "write https://user@host:9200, or http://host:9200 on this machine"


@dataclass(frozen=True)
class SearchAccess:
    url: str  # without the user
    user: str
    password: str = field(repr=False)
    ca_file: Path | None = None

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def is_readable(self) -> bool:
        """Whether whoever hears it on its way can read the password."""
        return bool(self.password) and self.url.startswith("http:")


def search_access(url: str, password: str, ca_file: Path | None = None) -> SearchAccess:
    """ValueError where the URL is none of such a server."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"it names no server: {_WRITE}")
    if parts.password is not None:
        raise ValueError("it has a password, which would be shown with it: give it by itself")
    if parts.query or parts.fragment:
        raise ValueError(f"it has more than a user, a host, a port and a path: {_WRITE}")
    user = unquote(parts.username or "")
    if bool(user) != bool(password):
        raise ValueError("user and password go together: one of them is missing")
    if ca_file is not None and parts.scheme == "http":
        raise ValueError("http:// checks no certificate: write https://, or leave the file out")
    host = parts.netloc.rpartition("@")[2]
    return SearchAccess(f"{parts.scheme}://{host}{parts.path.rstrip('/')}", user, password, ca_file)
