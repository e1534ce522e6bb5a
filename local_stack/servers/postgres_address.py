"""Addresses of the embedded PostgreSQL, one for each role. They hold no password but name the file
with it (libpq's .pgpass form), so they may be shown and handed on."""

from pathlib import Path
from urllib.parse import quote

from clients.postgres.grants import READER

SUPERUSER = DATABASE = "headrace"


def postgres_url(state_dir: Path, port: int, role: str) -> str | None:
    """None as long as no database was made in this state folder."""
    folder = state_dir / "postgres"
    if not password_file(folder).exists():
        return None
    file = quote(str(pass_file(folder, role)))
    return f"postgresql://{role}@127.0.0.1:{port}/{DATABASE}?passfile={file}"


def as_role(url: str, role: str) -> str:
    """The reader's address of our own server, for another role; a server of the user's own is
    reached as the user says."""
    end = f"/{READER}.pgpass"
    if not url.endswith(end):
        return url
    return url.removesuffix(end).replace(f"//{READER}@", f"//{role}@", 1) + f"/{role}.pgpass"


def shown(url: str | None) -> str | None:
    """Without the password that a user's own address may hold."""
    if url is None:
        return None
    from psycopg import ProgrammingError  # it takes 50 ms, and most verbs do without
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError:
        return "cannot be read: see HEADRACE_POSTGRES_URL"
    if not {"password", "sslpassword"} & parts.keys():
        return url
    place = f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"
    return f"postgresql://{parts.get('user', '')}:***@{place}"


def password_file(folder: Path) -> Path:
    """The superuser's, from the making of the data folder on."""
    return folder / "password"


def pass_file(folder: Path, role: str) -> Path:
    return folder / f"{role}.pgpass"
